Several programs, each on a chip of its own; what they print comes in their order:

  $ printf 'imm i"1" $ls0\nnop\nd get $ls0n0c0b0m0p0 1\n' > one.vsm
  $ printf 'imm i"2" $ls0\nnop/100\nd get $ls0n0c0b0m0p0 1\n' > two.vsm
  $ kodama sim one.vsm two.vsm one.vsm --jobs 2
  DEBUG-GREG1(n0c0b0m0p0,0):(f:0, i:{{0x0,0x1},{0x0,0x1}}, v:0x100000001) #d get $ls0n0c0b0m0p0 1
  one.vsm: 2 steps (1 nop), 0 MV transfers, 8 cycles (0 waiting)
  DEBUG-GREG1(n0c0b0m0p0,0):(f:0, i:{{0x0,0x2},{0x0,0x2}}, v:0x200000002) #d get $ls0n0c0b0m0p0 1
  two.vsm: 101 steps (100 nop), 0 MV transfers, 404 cycles (0 waiting)
  DEBUG-GREG1(n0c0b0m0p0,0):(f:0, i:{{0x0,0x1},{0x0,0x1}}, v:0x100000001) #d get $ls0n0c0b0m0p0 1
  one.vsm: 2 steps (1 nop), 0 MV transfers, 8 cycles (0 waiting)
  $ kodama sim two.vsm one.vsm --chip tiny --no-timing
  DEBUG-GREG1(n0c0b0m0p0,0):(f:0, i:{{0x0,0x2},{0x0,0x2}}, v:0x200000002) #d get $ls0n0c0b0m0p0 1
  two.vsm: 101 steps (100 nop), 0 MV transfers
  DEBUG-GREG1(n0c0b0m0p0,0):(f:0, i:{{0x0,0x1},{0x0,0x1}}, v:0x100000001) #d get $ls0n0c0b0m0p0 1
  one.vsm: 2 steps (1 nop), 0 MV transfers

An error is said when all are done:

  $ printf 'nonsense\n' > bad.vsm
  $ kodama sim two.vsm bad.vsm one.vsm
  DEBUG-GREG1(n0c0b0m0p0,0):(f:0, i:{{0x0,0x2},{0x0,0x2}}, v:0x200000002) #d get $ls0n0c0b0m0p0 1
  two.vsm: 101 steps (100 nop), 0 MV transfers, 404 cycles (0 waiting)
  DEBUG-GREG1(n0c0b0m0p0,0):(f:0, i:{{0x0,0x1},{0x0,0x1}}, v:0x100000001) #d get $ls0n0c0b0m0p0 1
  one.vsm: 2 steps (1 nop), 0 MV transfers, 8 cycles (0 waiting)
  kodama: error: bad.vsm:1:1: unknown instruction 'nonsense'
  [2]

What is for one program alone:

  $ kodama sim one.vsm two.vsm --stats
  kodama: error: sim --stats: no effect on several programs; what has one: --chip, --hazards, --jobs, --memory, --no-timing, --plugin, --seed, --threads, program
  [2]
  $ kodama sim one.vsm --jobs 2
  kodama: error: --jobs: no effect on one program
  [2]
  $ kodama sim one.vsm two.vsm --jobs 0
  kodama: error: --jobs: found '0', allowed: a whole number from 1 to 1024
  Run with --help for more information.
  [2]
