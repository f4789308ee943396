The optimizer: forwarding, packing, fewer nops.

  $ cat > in.vsm <<'END'
  > imm i"1" $ls0
  > nop/2
  > iadd $lm0v $ls0 $lr0v
  > nop
  > fvadd $lr0v $lr0v $ln0v
  > END
  $ kodama opt in.vsm -o out.vsm
  6 steps before, 3 after: 2.00 times fewer
  24 cycles before, 12 after: 2.00 times fewer
  bounds: longest path 3, busiest unit 2 (alu), busiest port 1 (writes of $n (LM1)); 3 steps are 1.00 times the bound of 3
  3 reads forwarded, 0 operations removed, 0 values renamed
  wrote out.vsm
  $ cat out.vsm
  imm i"1" $ls0
  iadd $lm0v $aluf $lr0v
  fvadd $aluf $aluf $ln0v

Only what counts:

  $ kodama opt in.vsm -o out.vsm --live-out grf0:0-7
  6 steps before, 2 after: 3.00 times fewer
  24 cycles before, 8 after: 3.00 times fewer
  bounds: longest path 2, busiest unit 2 (alu), busiest port 1 (writes of $r (GRF0)); 2 steps are 1.00 times the bound of 2
  1 reads forwarded, 1 operations removed, 0 values renamed
  wrote out.vsm
  $ cat out.vsm
  imm i"1" $nowrite
  iadd $lm0v $aluf $lr0v
  $ kodama opt in.vsm -o out.vsm --live-out grf2
  kodama: error: --live-out: found 'grf2', allowed: NAME or NAME:FROM-TO, separated by commas, with NAME one of bar0 bar1 dar dram grf0 grf1 l1bm l2bm lm0 lm1 masks matx maty pdm t turnaround
  [2]

Nothing to do:

  $ echo 'linc $lr0v $lr0v' > short.vsm
  $ kodama opt short.vsm -o out.vsm
  1 steps before, 1 after: 1.00 times fewer
  4 cycles before, 4 after: 1.00 times fewer
  bounds: longest path 1, busiest unit 1 (alu), busiest port 1 (writes of $r (GRF0)); 1 steps are 1.00 times the bound of 1
  nothing better was found: the program is left as it is
  wrote out.vsm
  $ cat out.vsm
  linc $lr0v $lr0v

Cycles are what counts, unless told otherwise: work goes by while the transfer is under way, in one step more.

  $ cat > transfer.vsm <<'END'
  > mvp/n4096i01 $d0 $lc0@.0
  > nop; wait i01
  > l2bmb $lc0 $lb0
  > linc $lr0v $lr0v
  > nop
  > linc $lr0v $lr0v
  > nop
  > linc $lr0v $lr0v
  > END
  $ kodama opt transfer.vsm -o out.vsm --chip tiny
  7 steps before, 4 after: 1.75 times fewer
  348 cycles before, 324 after: 1.07 times fewer
  bounds: longest path 4, busiest unit 3 (alu), busiest port 2 (writes of $r (GRF0)); 4 steps are 1.00 times the bound of 4
  1 reads forwarded, 0 operations removed, 0 values renamed
  wrote out.vsm
  $ cat out.vsm
  mvp/n4096i01 $d0 $lc0@.0
  linc $lr0v $nowrite
  linc $aluf $lr0v
  nop
  wait i01; l2bmb $lc0 $lb0; linc $lr0v $lr0v
  $ kodama opt transfer.vsm -o out.vsm --chip tiny --objective steps
  7 steps before, 3 after: 2.33 times fewer
  348 cycles before, 332 after: 1.05 times fewer
  bounds: longest path 3, busiest unit 3 (alu), busiest port 1 (writes of $r (GRF0)); 3 steps are 1.00 times the bound of 3
  2 reads forwarded, 0 operations removed, 0 values renamed
  wrote out.vsm
  $ cat out.vsm
  mvp/n4096i01 $d0 $lc0@.0
  wait i01; l2bmb $lc0 $lb0; linc $lr0v $nowrite
  linc $aluf $nowrite
  linc $aluf $lr0v
  $ kodama opt transfer.vsm -o out.vsm --objective words
  kodama: error: --objective: found 'words', allowed: cycles, steps
  [2]

Another scheduler:

  $ kodama opt in.vsm -o out.vsm --scheduler list
  6 steps before, 6 after: 1.00 times fewer
  24 cycles before, 24 after: 1.00 times fewer
  bounds: longest path 6, busiest unit 2 (alu), busiest port 1 (writes of $n (LM1)); 6 steps are 1.00 times the bound of 6
  nothing better was found: the program is left as it is
  wrote out.vsm
  $ kodama opt in.vsm -o out.vsm --scheduler best
  kodama: error: --scheduler best: there is no such scheduler; allowed: list, sequential, exact
  [2]

The plain form:

  $ cat > packed.vsm <<'END'
  > linc $lr0v $lr0v; fvadd $lr0v $lr0v $lm0v
  > nop/4
  > lpassa $lm0v $ls0v; fvpassa $ls0v $lr0v
  > END
  $ kodama opt packed.vsm -o out.vsm --plain
  6 steps before, 4 in the plain form
  wrote out.vsm
  $ cat out.vsm
  fvadd $lr0v $lr0v $lm0v
  linc $lr0v $lr0v
  fvpassa $ls0v $lr0v
  lpassa $lm0v $ls0v

A program with hazards:

  $ cat > bad.vsm <<'END'
  > linc $lr0v $lr0v
  > lpassa $lr0v $ln0v
  > END
  $ rm out.vsm
  $ kodama opt bad.vsm -o out.vsm
  kodama: error: bad.vsm:2: the program has hazards; it can't be optimized before they are gone
  bad.vsm:2: 'lpassa' reads GRF0 word 0, which 'linc' of line 1 writes: 0 steps between, 1 needed
  [2]
  $ ls out.vsm
  ls: cannot access 'out.vsm': No such file or directory
  [2]
  $ kodama opt in.vsm
  6 steps before, 3 after: 2.00 times fewer
  24 cycles before, 12 after: 2.00 times fewer
  bounds: longest path 3, busiest unit 2 (alu), busiest port 1 (writes of $n (LM1)); 3 steps are 1.00 times the bound of 3
  3 reads forwarded, 0 operations removed, 0 values renamed

Without a file it says what it found; a drawing shows both programs:

  $ kodama opt in.vsm
  6 steps before, 3 after: 2.00 times fewer
  24 cycles before, 12 after: 2.00 times fewer
  bounds: longest path 3, busiest unit 2 (alu), busiest port 1 (writes of $n (LM1)); 3 steps are 1.00 times the bound of 3
  3 reads forwarded, 0 operations removed, 0 values renamed
  $ kodama opt in.vsm --quiet
  6 steps before, 3 after: 2.00 times fewer
  24 cycles before, 12 after: 2.00 times fewer
  bounds: longest path 3, busiest unit 2 (alu), busiest port 1 (writes of $n (LM1)); 3 steps are 1.00 times the bound of 3
  3 reads forwarded, 0 operations removed, 0 values renamed
  $ kodama opt in.vsm --draw both.svg > /dev/null
  wrote both.svg
  $ texts() { /usr/bin/python3 -c 'import sys, xml.dom.minidom; print([node.firstChild.data for node in xml.dom.minidom.parse(sys.argv[1]).getElementsByTagName("text")])' "$1"; }
  $ texts both.svg
  ['Dependences before 1', 'imm 0x00000001 -> $ls[0]', '0 in step 0', 'iadd $lm[0]v $ls[0] -> $lr[0]v', '1 in step 3', 'fvadd $lr[0]v $lr[0]v -> $ln[0]v', '2 in step 5', 'before 1: 6 steps', '0', '1', '2', '3', '4', '5', 'unit alu', '0', '1', 'unit mau-calc', '2', 'Dependences after 1', 'imm 0x00000001 -> $ls[0]', '0 in step 0', 'iadd $lm[0]v $aluf -> $lr[0]v', '1 in step 1', 'fvadd $aluf $aluf -> $ln[0]v', '2 in step 2', 'after 1: 3 steps', '0', '1', '2', 'unit alu', '0', '1', 'unit mau-calc', '2']
  $ kodama opt in.vsm -o out.vsm --draw both.dot > /dev/null; cat both.dot
  wrote out.vsm
  wrote both.dot
  digraph "before 1" {
    node [shape=box]
    0 [label="0: imm 0x00000001 -> $ls[0] in step 0"]
    1 [label="1: iadd $lm[0]v $ls[0] -> $lr[0]v in step 3"]
    2 [label="2: fvadd $lr[0]v $lr[0]v -> $ln[0]v in step 5"]
    0 -> 1 [label="3"]
    1 -> 2 [label="2"]
  }
  digraph "after 1" {
    node [shape=box]
    0 [label="0: imm 0x00000001 -> $ls[0] in step 0"]
    1 [label="1: iadd $lm[0]v $aluf -> $lr[0]v in step 1"]
    2 [label="2: fvadd $aluf $aluf -> $ln[0]v in step 2"]
    0 -> 1 [label="1"]
    1 -> 2 [label="1"]
  }
  $ kodama opt in.vsm --draw - 2> /dev/null | head -c 4
  <svg (no-eol)
  $ kodama opt in.vsm --draw - -o -
  kodama: error: standard output: two outputs would go there; each needs a file of its own
  [2]
  $ kodama opt in.vsm --draw missing/x.svg
  kodama: error: missing/x.svg: can't be written (No such file or directory)
  [2]
  $ printf 'd get $lm0n0c0b0m0p0 1\n' > nothing.vsm; kodama opt nothing.vsm --draw none.svg; texts none.svg
  0 steps before, 0 after: 1.00 times fewer
  0 cycles before, 0 after: 1.00 times fewer
  bounds: longest path 0; 0 steps are 1.00 times the bound of 0
  nothing better was found: the program is left as it is
  wrote none.svg
  []
  $ printf 'nop/20000\nlinc $lr0v $lr0v\n' > long.vsm; kodama opt long.vsm --draw long.svg | tail -1
  kodama: not supported: before 1: 20001 steps are too many for a picture, which may have 10000; a name that ends in .dot gets the dependences alone
  0 reads forwarded, 0 operations removed, 0 values renamed
  $ kodama opt in.vsm --problems problems --draw x.svg
  kodama: error: opt --draw: no effect with --problems; what has one: --chip, --problems, file
  [2]

The scheduling problems of its segments:

  $ cat > segments.vsm <<'END'
  > ladd $lm0v $ln0v $lr0v
  > nop
  > ladd $lr0v $ls0v $lr8v
  > d get $lr8n0c0b0m0p0 1
  > linc $ls8v $ls8v; noforward
  > END
  $ kodama opt segments.vsm --problems problems
  wrote problems/segments_1.json
  1 problems of 2 operations in problems, 1 segments skipped
  $ kodama schedule problems/segments_1.json --scheduler exact
  segments 1: 2 operations, 1 dependences
  bound: 3 steps (critical path 3, resources 3)
  exact: steps 3, no schedule is shorter
      0  ladd $lm[0]v $ln[0]v -> $lr[0]v
      2  ladd $lr[0]v $ls[0]v -> $lr[8]v

Random programs:

  $ kodama opt --fuzz 3 --seed 1 --chip tiny
  3 programs from seed 1 on tiny: 36 steps, optimized 29; 0 reads forwarded, 7 operations removed, 0 values renamed; 0 programs refused at run time
