VSM errors name file, line and column.

  $ try() { printf "$1\n" > a.vsm; kodama sim a.vsm --chip tiny; }

  $ try 'nop\nfvfmax $lr0v $lr8v $lr16v $lr24v'
  kodama: error: a.vsm:2:1: unknown instruction 'fvfmax'; did you mean 'fvfma'?
  [2]
  $ try 'fvadd $lr0v $lx8 $lr16v'
  kodama: error: a.vsm:1:13: source 2 of 'fvadd' can't be $lx (matrix register); allowed: $m (LM0), $n (LM1), $r (GRF0), $s (GRF1), $t, $aluf, $mauf, $lbf
  [2]
  $ try 'lpassa $lm1v $ln0v'
  kodama: error: a.vsm:1:8: address 1 of $lm1v is misaligned: a long-word (l) access needs a multiple of 2 words
  [2]
  $ try 'fvadd $lm0v $lm8v $lr0v'
  kodama: error: a.vsm:1:1: two reads of $m (LM0) with different addresses by 'fvadd'; all reads of a space in a step must have the same width and addresses
  [2]
  $ try 'imm f"1.5" $lm0v'
  kodama: error: a.vsm:1:1: 'imm' can't be in a step that accesses $m (LM0), here by 'imm'
  [2]
  $ try 'lpassa $lm9000v $ln0v'
  kodama: error: a.vsm:1:8: address 9000 is out of range; allowed: 0..4095 (words)
  [2]
  $ try 'mvp/n63 $d0@0 $lc0@0.0'
  kodama: error: a.vsm:1:1: size 63 of mvp is not a positive multiple of 64 LW
  [2]
  $ try 'lpassa $lm0v'
  kodama: error: a.vsm:1:1: 'lpassa' needs a destination (syntax: <p>passa x dst...)
  [2]
  $ try 'wait i01'
  kodama: error: a.vsm:1:1: wait never stands alone; write nop; wait i<tag>
  [2]
  $ kodama sim missing.vsm --chip tiny
  kodama: error: missing.vsm: can't be read: No such file or directory
  [2]
