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
  out of the L2Bs             3584 B at  128.0 B/cycle         28.0 cycles  <- the bound
  into the L2Bs               3584 B at  128.0 B/cycle         28.0 cycles
  out of the L1Bs              504 B at  128.0 B/cycle          3.9 cycles
  into the L1Bs                504 B at  128.0 B/cycle          3.9 cycles
  out of the MABs               32 B at   64.0 B/cycle          0.5 cycles
  into the MABs                 32 B at   64.0 B/cycle          0.5 cycles
  PEs reading                    8 B at   16.0 B/cycle          0.5 cycles
  PEs writing                    8 B at   16.0 B/cycle          0.5 cycles
  $ kodama layout bound '((4_PE:1, 3:1))@LM0' '((4_PE:1, 3:1))@LM0' --shape 12
  nothing has to move
  $ kodama layout bound '((4_PE:1, 3:1))@LM0' '((4_PE:1, 2:1))@LM0' --shape 12
  kodama: error: layout ((4_PE:1, 2:1))@LM0: axis 0 of shape (12) has length 12, allowed: 1 to 8, the product of its factors
  [2]

A conversion, run and checked:

  $ kodama layout convert '((4_PE:1), (8:8), (8:1))@LM0' '((4_PE:1), (8:1), (8:8))@LM1' --shape 4,8,8 --type double --chip tiny --emit turn.vsm
  path: copy
  16 steps, 64 cycles
  PEs reading                  512 B at   16.0 B/cycle         32.0 cycles  <- the bound
  PEs writing                  512 B at   16.0 B/cycle         32.0 cycles
  2.00 times the bound
  scratch: LM1 long words 0 to 63, in every PE
  simulated: every element is in its place, nothing else has changed
  $ head -3 turn.vsm
  lpassa $lm0v16 $ln0v
  lpassa $lm64v16 $ln8v
  lpassa $lm2v16 $ln16v
  $ kodama check turn.vsm
  turn.vsm: no hazards
  $ kodama layout convert '((4_PE:1, 3:1))@LM0' '((3:1, 4_PE:1))@LM0' --shape 12 --chip tiny
  kodama: not supported: conversion from ((4_PE:1, 3:1))@LM0 to ((3:1, 4_PE:1))@LM0: element (1) goes from PE 0 to PE 1; supported so far: changes of address and memory inside the PEs. What goes further must be sent through the host
  [3]
  $ kodama layout convert '((5:3))@LM0' '((8:1))@GRF1 pad -inf' --shape 5 --type float --chip tiny
  path: copy
  5 steps, 20 cycles
  PEs reading                   20 B at   16.0 B/cycle          1.2 cycles  <- the bound
  PEs writing                   20 B at   16.0 B/cycle          1.2 cycles
  16.00 times the bound
  scratch: GRF1 long words 0 to 7, in every PE
  simulated: every element is in its place, nothing else has changed
