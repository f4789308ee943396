A program in its three forms: text, machine words, binary.

  $ cat > a.vsm <<'END'
  > # region product
  > fvfma $lr0v $ls0v $ln0v $lm0v
  > nop/2
  > # endregion
  > d get $lm0n0c0b0m0p0 1
  > END
  $ kodama asm a.vsm --chip tiny --format=words -o a.asm
  wrote a.asm
  $ cut -c1-60 a.asm
  i 0100000000000000000000000000000000000000000000100000000000
  i 0000000000000000000000000000000000000000000000100000000000
  i 0000000000000000000000000000000000000000000000100000000000
  d get $lm0n0c0b0m0p0 1
  $ kodama dis a.asm --chip tiny
  fvfma $lr0v $ls0v $ln0v $lm0v
  nop/2
  d get $lm0n0c0b0m0p0 1
  $ kodama asm a.vsm --chip tiny --format=binary -o a.kprog
  wrote a.kprog
  $ kodama dis a.kprog --chip tiny
  # region product
  fvfma $lr0v $ls0v $ln0v $lm0v
  nop/2
  # endregion
  d get $lm0n0c0b0m0p0 1
  $ kodama sim a.kprog --chip tiny
  DEBUG-LM0(n0c0b0m0p0,0):(f:0, i:{{0x0,0x0},{0x0,0x0}}, v:0x0) #d get $lm0n0c0b0m0p0 1
  3 steps (2 nop), 0 MV transfers, 12 cycles (0 waiting)
  $ kodama sim a.asm --chip tiny
  DEBUG-LM0(n0c0b0m0p0,0):(f:0, i:{{0x0,0x0},{0x0,0x0}}, v:0x0) #d get $lm0n0c0b0m0p0 1
  3 steps (2 nop), 0 MV transfers, 12 cycles (0 waiting)

What the machine word of an instruction is, is not always known.

  $ printf 'nop\nladd $lr0 $ls0 $lm0\n' > b.vsm
  $ kodama asm b.vsm --format=words
  kodama: not supported: b.vsm:2: 'ladd $lr0 $ls0 $lm0' needs the field aluc.op of the machine word, of which the value for this instruction is not known; write the program as text or in the binary format
  [3]
  $ printf 'lpassa $lm0v8 $lr0\n' > c.vsm
  $ kodama asm c.vsm --format=words
  kodama: not supported: c.vsm:1: 'lpassa $lm0v8 $lr0' needs the field lm0.inc of the machine word, of which the value 4 is inferred only (--allow-inferred admits it); write the program as text or in the binary format
  [3]
  $ kodama asm c.vsm --format=words --allow-inferred | wc -c
  295
  $ printf 'mvnop\n' > d.vsm
  $ kodama asm d.vsm --format=words
  kodama: not supported: d.vsm:1: the machine form of a transfer is not known; write the program as text or in the binary format
  [3]

Two instructions may want different values of one field, and a word may not show all that a step does.

  $ printf 'nop\ngmwrite $lr0v $lx0; gmread $ly0 $nowrite\n' > e.vsm
  $ kodama asm e.vsm --format=words
  kodama: not supported: e.vsm:2: 'gmwrite $lr0v $lx0' and 'gmread $ly0 $nowrite' need different values of the field mauc.mswap of the machine word: 1 and 0; put them into two steps
  [3]
  $ printf 'gmmul $lx $lr0v $nowrite; gmread $ly0 $nowrite\n' > f.vsm
  $ kodama asm f.vsm --format=words
  kodama: not supported: f.vsm:1: 'gmread $ly0 $nowrite' needs the field mauc.maddr of the machine word, which is the same with and without it here: no field enables a matrix read; write the program as text or in the binary format
  [3]

A line per step has its limits; the binary format keeps nop/N and loops.

  $ printf 'nop/100000000\n' > g.vsm
  $ kodama asm g.vsm --format=words
  kodama: not supported: g.vsm: a program of 100000000 steps and 1 statements is too long for a line per step; allowed: at most 16777216 of each; write it in the binary format, which keeps loops and nop/N
  [3]
  $ kodama asm g.vsm --format=binary -o g.kprog
  wrote g.kprog
  $ kodama dis g.kprog
  nop/100000000
  $ printf 'nop/10000000000\n' > h.vsm
  $ kodama asm h.vsm
  kodama: error: h.vsm:1:1: nop/10000000000: a number of steps is 1 to 4294967296
  [2]

Nothing is left of an output that failed.

  $ kodama asm b.vsm --format=words -o b.asm
  kodama: not supported: b.vsm:2: 'ladd $lr0 $ls0 $lm0' needs the field aluc.op of the machine word, of which the value for this instruction is not known; write the program as text or in the binary format
  [3]
  $ ls b.asm
  ls: cannot access 'b.asm': No such file or directory
  [2]

Files that are no programs.

  $ head -c 60 a.kprog > cut.kprog
  $ kodama dis cut.kprog --chip tiny
  kodama: error: cut.kprog: the checksum is wrong: the file is cut off or has been changed
  [2]
  $ kodama dis a.kprog --chip mncore2
  kodama: error: a.kprog: a program for the chip 'tiny' (hash 3340c567e7198d94); found 'mncore2' (hash b2488b7467fa6363)
  [2]
  $ printf 'i 0101\n' > short.asm
  $ kodama dis short.asm
  kodama: error: short.asm:1:3: a machine word of 4 characters; allowed are 292 binary digits
  [2]
  $ sed 's/^i 01/i 11/' a.asm > changed.asm
  $ kodama dis changed.asm
  kodama: error: changed.asm:1:3: field ll.b0 (bits 0 to 0) holds 1, which no known instruction explains
  [2]
  $ kodama dis a.vsm
  kodama: error: a.vsm:1:1: not a line of an assembled program; allowed are 'i' lines with 292 binary digits, 'd get', 'd set', 'r' and 'c' lines
  [2]
  $ printf 'c for the host\nm 0101\n' > transfer.asm
  $ kodama dis transfer.asm
  kodama: error: transfer.asm:2:1: the bits of a transfer ('m' line) are not known, so it can't be read
  [2]
  $ printf 'KODAMAP\n' > empty.kprog
  $ kodama sim empty.kprog
  kodama: error: empty.kprog: not a program of Kodama: it ends too early
  [2]
  $ kodama asm a.vsm --format=hex
  kodama: error: --format: found 'hex', allowed: text, words, binary
  Run with --help for more information.
  [2]
