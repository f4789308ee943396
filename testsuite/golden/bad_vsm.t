VSM errors name file, line and column.

  $ try() { printf "$1\n" > a.vsm; kodama sim a.vsm --chip tiny; }

  $ try 'nop\nfvfmax $lr0v $lr8v $lr16v $lr24v'
  $ try 'fvadd $lr0v $lx8 $lr16v'
  $ try 'lpassa $lm1v $ln0v'
  $ try 'fvadd $lm0v $lm8v $lr0v'
  $ try 'imm f"1.5" $lm0v'
  $ try 'lpassa $lm9000v $ln0v'
  $ try 'mvp/n63 $d0@0 $lc0@0.0'
  $ try 'lpassa $lm0v'
  $ try 'wait i01'
  $ kodama sim missing.vsm --chip tiny
