A program in its three forms: text, machine words, binary.

  $ cat > a.vsm <<'END'
  > # region product
  > fvfma $lr0v $ls0v $ln0v $lm0v
  > nop/2
  > # endregion
  > d get $lm0n0c0b0m0p0 1
  > END
  $ kodama asm a.vsm --chip tiny --format=words -o a.asm
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
  $ kodama dis a.kprog --chip tiny
  # region product
  fvfma $lr0v $ls0v $ln0v $lm0v
  nop/2
  # endregion
  d get $lm0n0c0b0m0p0 1
  $ kodama sim a.kprog --chip tiny
  3 steps (2 nop), 0 MV transfers, 12 cycles (0 waiting)
  DEBUG-LM0(n0c0b0m0p0,0):(f:0, i:{{0x0,0x0},{0x0,0x0}}, v:0x0) #d get $lm0n0c0b0m0p0 1
  $ kodama sim a.asm --chip tiny
  3 steps (2 nop), 0 MV transfers, 12 cycles (0 waiting)
  DEBUG-LM0(n0c0b0m0p0,0):(f:0, i:{{0x0,0x0},{0x0,0x0}}, v:0x0) #d get $lm0n0c0b0m0p0 1

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
  kodama: error: a.kprog: a program for the chip 'tiny' (hash caa2df5f7b4c428c); found 'mncore2' (hash 98c0eb5024ad2da1)
  [2]
  $ printf 'i 0101\n' > short.asm
  $ kodama dis short.asm
  kodama: error: short.asm:1:3: a machine word of 4 characters; allowed are 292 binary digits
  [2]
  $ sed 's/^i 01/i 11/' a.asm > changed.asm
  $ kodama dis changed.asm
  kodama: error: changed.asm:1:3: field ll.b0 (bits 0 to 0) holds 1, which no known instruction explains
  [2]
