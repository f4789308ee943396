Twelve elements on four PEs, as blocks and dealt out:

  $ kodama layout show '((4_PE:1, 3:1))@LM0' --type double
  ((4_PE:1, 3:1))@LM0, shape (12), 64 bits
  12 places, 3 long words of LM0 in each of 4 PEs, 100 % full
        LW 0  1   2
  PE 0  0     1   2
  PE 1  3     4   5
  PE 2  6     7   8
  PE 3  9     10  11
  $ kodama layout show '((3:1, 4_PE:1))@LM0' --type double
  ((3:1, 4_PE:1))@LM0, shape (12), 64 bits
  12 places, 3 long words of LM0 in each of 4 PEs, 100 % full
        LW 0  1  2
  PE 0  0     4  8
  PE 1  1     5  9
  PE 2  2     6  10
  PE 3  3     7  11

Images of rows, as in docs/rows.md: rows of L2Bs, a row of a part, and vectors of products:

  $ kodama layout show '((8_L2B:1, 7:1))@LM0' --type double --instances 3
  ((8_L2B:1, 7:1))@LM0, shape (56), 64 bits
  56 places, 7 long words of LM0 in each of 8 L2Bs, 100 % full
              LW 0  1   2   3   4   5   6
  L2B 0       0     1   2   3   4   5   6
  L2B 1       7     8   9   10  11  12  13
  L2B 2       14    15  16  17  18  19  20
  ... 5 more
  $ kodama layout show '((2:16, 4:1, 4_PE:1, 2_W:1), (4:4, 2:32))@LM1' --long-words 8
  ((2:16, 4:1, 4_PE:1, 2_W:1), (4:4, 2:32))@LM1, shape (64, 8), 32 bits
  512 places, 64 long words of LM1 in each of 4 PEs, 100 % full
        LW 0     1          2          3          4        5          6          7
  PE 0  0,0|1,0  8,0|9,0    16,0|17,0  24,0|25,0  0,2|1,2  8,2|9,2    16,2|17,2  24,2|25,2
  PE 1  2,0|3,0  10,0|11,0  18,0|19,0  26,0|27,0  2,2|3,2  10,2|11,2  18,2|19,2  26,2|27,2
  PE 2  4,0|5,0  12,0|13,0  20,0|21,0  28,0|29,0  4,2|5,2  12,2|13,2  20,2|21,2  28,2|29,2
  PE 3  6,0|7,0  14,0|15,0  22,0|23,0  30,0|31,0  6,2|7,2  14,2|15,2  22,2|23,2  30,2|31,2
  and 56 more long words
  $ kodama layout show '((4_MAB:1, 4_PE:1, 2_W:1), (4:1)) x [4_MAB:4]@LM1' --instances 5
  ((4_MAB:1, 4_PE:1, 2_W:1), (4:1)) x [4_MAB:4]@LM1, shape (32, 4), 32 bits
  512 places, 4 long words of LM1 in each of 16 MABs x 4 PEs, 100 % full
               LW 0       1          2          3
  MAB 0
    PE 0       0,0|1,0    0,1|1,1    0,2|1,2    0,3|1,3
    PE 1       2,0|3,0    2,1|3,1    2,2|3,2    2,3|3,3
    PE 2       4,0|5,0    4,1|5,1    4,2|5,2    4,3|5,3
    PE 3       6,0|7,0    6,1|7,1    6,2|7,2    6,3|7,3
  MAB 1
    PE 0       8,0|9,0    8,1|9,1    8,2|9,2    8,3|9,3
    PE 1       10,0|11,0  10,1|11,1  10,2|11,2  10,3|11,3
    PE 2       12,0|13,0  12,1|13,1  12,2|13,2  12,3|13,3
    PE 3       14,0|15,0  14,1|15,1  14,2|15,2  14,3|15,3
  MAB 2
    PE 0       16,0|17,0  16,1|17,1  16,2|17,2  16,3|17,3
    PE 1       18,0|19,0  18,1|19,1  18,2|19,2  18,3|19,3
    PE 2       20,0|21,0  20,1|21,1  20,2|21,2  20,3|21,3
    PE 3       22,0|23,0  22,1|23,1  22,2|23,2  22,3|23,3
  MAB 3
    PE 0       24,0|25,0  24,1|25,1  24,2|25,2  24,3|25,3
    PE 1       26,0|27,0  26,1|27,1  26,2|27,2  26,3|27,3
    PE 2       28,0|29,0  28,1|29,1  28,2|29,2  28,3|29,3
    PE 3       30,0|31,0  30,1|31,1  30,2|31,2  30,3|31,3
  MAB 4
    PE 0       0,0|1,0    0,1|1,1    0,2|1,2    0,3|1,3
    PE 1       2,0|3,0    2,1|3,1    2,2|3,2    2,3|3,3
    PE 2       4,0|5,0    4,1|5,1    4,2|5,2    4,3|5,3
    PE 3       6,0|7,0    6,1|7,1    6,2|7,2    6,3|7,3
  ... 11 more

(4, 6) by rows and as blocks of 2 x 3:

  $ kodama layout show '((4_PE:1), (6:1))@LM0' --type double
  ((4_PE:1), (6:1))@LM0, shape (4, 6), 64 bits
  24 places, 6 long words of LM0 in each of 4 PEs, 100 % full
        LW 0  1    2    3    4    5
  PE 0  0,0   0,1  0,2  0,3  0,4  0,5
  PE 1  1,0   1,1  1,2  1,3  1,4  1,5
  PE 2  2,0   2,1  2,2  2,3  2,4  2,5
  PE 3  3,0   3,1  3,2  3,3  3,4  3,5
  $ kodama layout show '((2_PE:2, 2:3), (2_PE:1, 3:1))@LM0' --type double
  ((2_PE:2, 2:3), (2_PE:1, 3:1))@LM0, shape (4, 6), 64 bits
  24 places, 6 long words of LM0 in each of 4 PEs, 100 % full
        LW 0  1    2    3    4    5
  PE 0  0,0   0,1  0,2  1,0  1,1  1,2
  PE 1  0,3   0,4  0,5  1,3  1,4  1,5
  PE 2  2,0   2,1  2,2  3,0  3,1  3,2
  PE 3  2,3   2,4  2,5  3,3  3,4  3,5

NCHWc, c over PEs and words, C over L2Bs and L1Bs:

  $ kodama layout show '((), (8_L2B:1, 8_L1B:1), (28:28), (28:1), (4_PE:1, 2_W:1))@LM0' --instances 2 --long-words 3
  ((), (8_L2B:1, 8_L1B:1), (28:28), (28:1), (4_PE:1, 2_W:1))@LM0, shape (1, 64, 28, 28, 8), 32 bits
  401408 places, 784 long words of LM0 in each of 8 L2Bs x 8 L1Bs x 4 PEs, 100 % full
                  LW 0                 1                    2
  L2B 0
    L1B 0
      PE 0        0,0,0,0,0|0,0,0,0,1  0,0,0,1,0|0,0,0,1,1  0,0,0,2,0|0,0,0,2,1
      PE 1        0,0,0,0,2|0,0,0,0,3  0,0,0,1,2|0,0,0,1,3  0,0,0,2,2|0,0,0,2,3
      ... 2 more
    L1B 1
      PE 0        0,1,0,0,0|0,1,0,0,1  0,1,0,1,0|0,1,0,1,1  0,1,0,2,0|0,1,0,2,1
      PE 1        0,1,0,0,2|0,1,0,0,3  0,1,0,1,2|0,1,0,1,3  0,1,0,2,2|0,1,0,2,3
      ... 2 more
    ... 6 more
  L2B 1
    L1B 0
      PE 0        0,8,0,0,0|0,8,0,0,1  0,8,0,1,0|0,8,0,1,1  0,8,0,2,0|0,8,0,2,1
      PE 1        0,8,0,0,2|0,8,0,0,3  0,8,0,1,2|0,8,0,1,3  0,8,0,2,2|0,8,0,2,3
      ... 2 more
    L1B 1
      PE 0        0,9,0,0,0|0,9,0,0,1  0,9,0,1,0|0,9,0,1,1  0,9,0,2,0|0,9,0,2,1
      PE 1        0,9,0,0,2|0,9,0,0,3  0,9,0,1,2|0,9,0,1,3  0,9,0,2,2|0,9,0,2,3
      ... 2 more
    ... 6 more
  ... 6 more
  and 781 more long words

Rows of a matrix operand, copied to all MABs; padding:

  $ kodama layout show '((8:1), (4_PE:1, 2_W:1)) x [16_MAB:1]@LM0' --shape 7,8 --instances 1
  ((8:1), (4_PE:1, 2_W:1)) x [16_MAB:1]@LM0, shape (7, 8), 32 bits
  1024 places, 8 long words of LM0 in each of 16 MABs x 4 PEs, 100 % full
                LW 0     1        2        3        4        5        6        7
  MAB 0
    PE 0        0,0|0,1  1,0|1,1  2,0|2,1  3,0|3,1  4,0|4,1  5,0|5,1  6,0|6,1  .|.
    ... 3 more
  ... 15 more
  $ kodama layout show '((2:3, 2_W:1))@PDM' --type int --shape 3
  ((2:3, 2_W:1))@PDM, shape (3), 32 bits
  4 places, 4 long words of PDM, 50 % full
    LW 0  1    2    3
    0|1   -|-  -|-  2|.

As JSON:

  $ kodama layout show '((2_PE:1, 2_W:1))@GRF0' --shape 3 --json | tr -d '\n '
  {"layout":"((2_PE:1,2_W:1))@GRF0","shape":[3],"element_bits":32,"memory":"GRF0","long_words":1,"instances":{"l2b":1,"l1b":1,"mab":1,"pe":2},"density":1.0,"places":[{"l2b":0,"l1b":0,"mab":0,"pe":0,"address":0,"word":0,"element":[0]},{"l2b":0,"l1b":0,"mab":0,"pe":0,"address":0,"word":1,"element":[1]},{"l2b":0,"l1b":0,"mab":0,"pe":1,"address":0,"word":0,"element":[2]},{"l2b":0,"l1b":0,"mab":0,"pe":1,"address":0,"word":1,"element":null}]} (no-eol)

Wrong layouts and shapes:

  $ kodama layout show '((99_PE:1))@LM0'
  kodama: error: layout ((99_PE:1))@LM0 on chip mncore2: found PE coordinates up to 98, allowed: 0 to 3 for LM0 elements of 32 bits
  [2]
  $ kodama layout show '((4_PE:1))@LM0' --shape 5
  kodama: error: layout ((4_PE:1))@LM0: axis 0 of shape (5) has length 5, allowed: 1 to 4, the product of its factors
  [2]
  $ kodama layout show '((4_PE:1))@LM0' --shape 2,2
  kodama: error: layout ((4_PE:1))@LM0 has 1 axes, found shape (2, 2)
  [2]
  $ kodama layout show '((4_PE:1))@LM0' --shape 2,-2
  kodama: error: --shape 2,-2: found '-2', allowed: positive lengths, as 4,6
  [2]
  $ kodama layout show '((4_W:1))@LM0' --type double
  kodama: error: layout ((4_W:1))@LM0 on chip mncore2: found W coordinates up to 3, allowed: 0 to 0 for LM0 elements of 64 bits
  [2]

The least cycles of a conversion:

  $ kodama layout bound '((8_L2B:1, 8_L1B:1), (16_MAB:1, 4_PE:1))@LM0' '((16_MAB:1, 4_PE:1), (8_L2B:1, 8_L1B:1))@LM0' --shape 64,64 --type double
  out of the L2Bs             1024 B at  128.0 B/cycle, 192 on the way      200.0 cycles
  into the L2Bs               1024 B at  128.0 B/cycle, 192 on the way      200.0 cycles
  pairs of L2Bs                                                             264.0 cycles  <- the bound
  L2BM and L1BMs              7872 B at  512.0 B/cycle,  20 on the way       36.0 cycles
  L1BM and PEs                1008 B at  512.0 B/cycle,   0 on the way        4.0 cycles
  PEs to L1BM                  128 B at  512.0 B/cycle, 192 on the way      196.0 cycles
  L1BM to PEs                  128 B at  512.0 B/cycle, 192 on the way      196.0 cycles
  out of the MABs               32 B at   64.0 B/cycle, 192 on the way      196.0 cycles
  into the MABs                 32 B at   64.0 B/cycle, 192 on the way      196.0 cycles
  PEs reading                   16 B at   16.0 B/cycle, 192 on the way      196.0 cycles
  PEs writing                   16 B at   16.0 B/cycle, 192 on the way      196.0 cycles
  steps                                                                       4.0 cycles
  $ kodama layout bound '((4_PE:1, 3:1))@LM0' '((4_PE:1, 3:1))@LM0' --shape 12
  nothing has to move
  $ kodama layout bound '((4_PE:1, 3:1))@LM0' '((4_PE:1, 2:1))@LM0' --shape 12
  kodama: error: layout ((4_PE:1, 2:1))@LM0: axis 0 of shape (12) has length 12, allowed: 1 to 8, the product of its factors
  [2]

A conversion, run and checked:

  $ kodama layout convert '((4_PE:1), (8:8), (8:1))@LM0' '((4_PE:1), (8:1), (8:8))@LM1' --shape 4,8,8 --type double --chip tiny --emit turn.vsm
  path: copy
  16 steps, 64 cycles
  PEs reading                  512 B at   16.0 B/cycle,   0 on the way       32.0 cycles  <- the bound
  PEs writing                  512 B at   16.0 B/cycle,   0 on the way       32.0 cycles
  steps                                                                      12.0 cycles
  2.00 times the bound
  scratch: LM1 long words 0 to 63
  wrote turn.vsm
  simulated: every element is in its place, nothing else has changed
  $ head -3 turn.vsm
  lpassa $lm0v16 $ln0v
  lpassa $lm64v16 $ln8v
  lpassa $lm2v16 $ln16v
  $ kodama check turn.vsm
  turn.vsm: no hazards
  $ kodama layout convert '((4_MAB:1, 16:1), (4_PE:1))@LM0' '((16:1, 4_MAB:1), (4_PE:1))@LM1' --shape 64,4 --type double --chip tiny
  path: skew, copy
  19 steps, 76 cycles
  L1BM and PEs                2048 B at  128.0 B/cycle,   0 on the way       16.0 cycles  <- the bound
  PEs to L1BM                 1536 B at  128.0 B/cycle,   4 on the way       16.0 cycles
  L1BM to PEs                 1536 B at  128.0 B/cycle,   4 on the way       16.0 cycles
  out of the MABs              384 B at   64.0 B/cycle,   4 on the way       12.0 cycles
  into the MABs                384 B at   64.0 B/cycle,   4 on the way       12.0 cycles
  PEs reading                  128 B at   16.0 B/cycle,   4 on the way       12.0 cycles
  PEs writing                   96 B at   16.0 B/cycle,   4 on the way       12.0 cycles
  steps                                                                       4.0 cycles
  4.75 times the bound
  search: 5 states, no sequence of primitives is cheaper by estimate; one program
  scratch: LM0 long words 508 to 511
  scratch: LM0 long words 1020 to 1023
  scratch: LM0 long words 1532 to 1535
  scratch: LM0 long words 2044 to 2047
  scratch: GRF1 long words 252 to 255
  scratch: L1BM long words 7872 to 8191
  scratch: LM1 long words 0 to 15
  simulated: every element is in its place, nothing else has changed
  $ kodama layout convert '((4_PE:1, 3:1))@LM0' '((3:1, 4_PE:1))@LM0' --shape 12 --type double --chip tiny
  path: elements
  element by element: axis 0: the digits of the two layouts cross (3 and 4)
  11 steps, 44 cycles
  PEs reading                   16 B at   16.0 B/cycle,   4 on the way        8.0 cycles  <- the bound
  PEs writing                   16 B at   16.0 B/cycle,   4 on the way        8.0 cycles
  steps                                                                       8.0 cycles
  5.50 times the bound
  scratch: GRF0 long words 128 to 255
  scratch: GRF1 long words 248 to 255
  scratch: L1BM long words 8064 to 8191
  scratch: LM0 long words 0 to 2
  simulated: every element is in its place, nothing else has changed
  $ kodama layout convert '((5:3))@LM0' '((8:1))@GRF1 pad -inf' --shape 5 --type float --chip tiny
  path: copy, pad
  6 steps, 24 cycles
  PEs reading                   80 B at   16.0 B/cycle,   0 on the way        8.0 cycles  <- the bound
  PEs writing                   48 B at   16.0 B/cycle,   0 on the way        4.0 cycles
  steps                                                                       4.0 cycles
  3.00 times the bound
  scratch: GRF1 long words 254 to 255
  scratch: GRF1 long words 0 to 7
  simulated: every element is in its place, nothing else has changed

Primitives that the ones above don't use:

  $ convert() { kodama layout convert "$1" "$2" --shape "$3" --type double --chip tiny | grep -E '^path|simulated'; }
  $ convert '((4_L2B:1), (4:1, 4_PE:1))@LM0' '((4:1), (4_L2B:1, 4_PE:1))@LM1' 4,16
  path: transpose-l2b, all-gather-mab
  simulated: every element is in its place, nothing else has changed
  $ convert '((2_L1B:1), (4_MAB:1, 4_PE:1))@LM0' '((2:1), (4_MAB:1, 4_PE:1)) x [2_L1B]@LM1' 2,16
  path: broadcast-l1b
  simulated: every element is in its place, nothing else has changed
  $ convert '((2:64, 2_MAB:1, 64:1), (4_PE:1))@LM0' '((2_MAB:2, 2_MAB:1, 64:1), (4_PE:1))@LM1' 256,4
  path: deal
  simulated: every element is in its place, nothing else has changed
  $ convert '((2_MAB:2, 2_MAB:1, 64:1), (4_PE:1))@LM0' '((2:64, 2_MAB:1, 64:1), (4_PE:1))@LM1' 256,4
  path: collect
  simulated: every element is in its place, nothing else has changed
  $ convert '((4_MAB:1, 4_PE:1, 4:1))@LM0' '((64:1)) x [4_MAB, 4_PE]@LM1' 64
  path: all-gather-pe
  simulated: every element is in its place, nothing else has changed
  $ convert '((4_PE:1), (6:1))@LM0' '((2_PE:2, 2:3), (2_PE:1, 3:1))@LM1' 4,6
  path: all-gather-pe, select
  simulated: every element is in its place, nothing else has changed

The suite, its file, and random ones:

  $ cat > two.txt <<EOF
  > MAB | dealt out | ((4_MAB:1, 16:1), (4_PE:1))@LM0 | ((16:1, 4_MAB:1), (4_PE:1))@LM1 | 64,4 | double  # a comment
  > PE | the other memory | ((16:1))@LM0 | ((16:1))@LM1 | 16 | float
  > EOF
  $ kodama layout bench --suite two.txt --chip tiny --check | grep -v search
  MAB     dealt out                                    64x4           64  skew, copy                                                         76        16   4.75
  PE      the other memory                             16             32  copy                                                                8         8   1.00
  2 conversions, 84 cycles, 24 bound; cycles over bound: geometric mean 2.18, worst 4.75 (MAB, dealt out (64x4))
  $ kodama layout bench --suite two.txt --chip tiny --kind PE --markdown
  | kind | what | shape | bits | path | cycles | bound | ratio |
  | --- | --- | --- | --- | --- | --- | --- | --- |
  | PE | the other memory | 16 | 32 | copy | 8 | 8 | 1.00 |
  
  1 conversions, 8 cycles, 8 bound; cycles over bound: geometric mean 1.00, worst 1.00 (PE, the other memory (16))
  $ echo 'MAB | dealt out | ((4_MAB:1))@LM0' > bad.txt
  $ kodama layout bench --suite bad.txt
  kodama: error: bad.txt:1: 3 fields, allowed: kind | what | from | to | shape | type
  [2]
  $ kodama layout bench --suite missing.txt
  kodama: error: missing.txt: can't be read
  [2]
  $ kodama layout fuzz --count 5
  5 random conversions on tiny, seeds 1 to 5: every element is right; 3 element by element, 0 refused for want of room
  $ kodama layout primitives | head -4
  | primitive | effect | asks for | steps; n = long words per PE |
  | --- | --- | --- | --- |
  | `copy` | addresses in any order; LM0, LM1, GRF0, GRF1 | two different memories | n/4; n/8 where neighbours stay neighbours |
  | `matrix` | PE bits <-> two address bits, through the matrix registers |  | n/4 |

As SVG:

  $ kodama layout show '((2_PE:1), (3:1))@LM0' --shape 2,2 --type double --svg l.svg
  wrote l.svg
  $ /usr/bin/python3 -c 'import xml.dom.minidom; svg = xml.dom.minidom.parse("l.svg"); print([node.firstChild.data for node in svg.getElementsByTagName("text")])'
  ['LW 0', 'LW 1', 'LW 2', 'PE 0', '0,0', '0,1', '.', 'PE 1', '1,0', '1,1', '.']
  $ kodama layout show '((16_MAB:1, 4_PE:1), (300:1))@LM0' --svg - --instances 2 --long-words 2 2> /dev/null | grep -c "<rect"
  9
  $ kodama layout show '((8_L2B:1, 8_L1B:1, 16_MAB:1, 4_PE:1), (1000:1))@LM0' --svg l.svg --instances 99 --long-words 9999
  kodama: error: layout ((8_L2B:1, 8_L1B:1, 16_MAB:1, 4_PE:1), (1000:1))@LM0: a picture of 4096 memories with 1000 long words each; allowed: up to 1000000 places, which --instances and --long-words choose
  [2]
  $ kodama layout show '((2_PE:1), (3:1))@LM0' --svg l.svg --json
  kodama: error: --json excludes --svg
  Run with --help for more information.
  [2]
  $ kodama layout show '((2_PE:1), (3:1))@LM0' --svg missing/l.svg
  kodama: error: missing/l.svg: can't be written (No such file or directory)
  [2]
  $ kodama layout show '((2_PE:1), (3:1))@LM0' --shape 4 --svg l.svg
  kodama: error: layout ((2_PE:1), (3:1))@LM0 has 2 axes, found shape (4)
  [2]
