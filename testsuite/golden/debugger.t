The program of docs/debugger.md, whose session is the test docs.page.debugger.

  $ cat > sum.vsm <<'END'
  > d set $lm0n0c0b0m0p0 1 400000003F800000
  > fvadd $lm0 $lm0 $lr0
  > nop/2
  > fvadd $lr0 $lr0 $ln0
  > END
  $ kodama check sum.vsm --chip tiny
  sum.vsm: no hazards
  $ printf 'print $lr0n0c0b0m0p0 f\nprint $mauf0n0c0b0m0p0 f\nstep\nprint $ln0n0c0b0m0p0 f\n' | kodama sim sum.vsm --chip tiny --break 4
  breakpoint at line 4
  4: fvadd $lr0 $lr0 $ln0
  GREG0(n0c0b0m0p0,0):(4, 2) (0x40800000, 0x40000000)
  MAUF(n0c0b0m0p0,0):(4, 2) (0x40800000, 0x40000000)
  the program has ended: 4 steps, 16 cycles
  LM1(n0c0b0m0p0,0):(8, 4) (0x41000000, 0x40800000)
  $ printf 'help\n' | kodama sim sum.vsm --chip tiny --step
  1: d set $lm0n0c0b0m0p0 1 400000003F800000
  step      s  [N]                  run N statements (1)
  continue  c                       run to the next stop
  break     b  LINE                 stop before this line
  delete    d  LINE                 remove a breakpoint
  watch     w  PLACE                stop when a long word changes
  unwatch      PLACE                watch it no longer
  print     p  PLACE [TYPE] [COUNT] long words, as 'd get' prints them; TYPE: d, f, h, bd, bf, bg, bh; also $aluf $mauf $lbf $mreadf $lbi $mb $nb $lx $ly $dar
  set          PLACE HEX            write long words
  list      l  [LINE]               the source around a line (the current one)
  info      i                       steps so far, breakpoints, watches
  where                             the next statement
  help      h                       this list
  quit      q                       end the session
  $ printf 'c\nlist\n' | kodama sim sum.vsm --chip tiny --watch '$ln0n0c0b0m0p0'
  changed: LM1(n0c0b0m0p0,0):(f:131072, i:{{0x4100,0x0},{0x4080,0x0}}, v:0x4100000040800000)
      was: LM1(n0c0b0m0p0,0):(f:0, i:{{0x0,0x0},{0x0,0x0}}, v:0x0)
  the program has ended: 4 steps, 16 cycles
  error: the program has ended
        1  d set $lm0n0c0b0m0p0 1 400000003F800000
        2  fvadd $lm0 $lm0 $lr0
        3  nop/2
        4  fvadd $lr0 $lr0 $ln0
  $ kodama sim sum.vsm --chip tiny --watch '$ln1n0c0b0m0p0' < /dev/null
  kodama: error: place:1:7: address 1 is misaligned: a long word starts at an even word
  [2]

Memory that nobody wrote.

  $ kodama sim sum.vsm --chip tiny --check-uninitialized
  4 steps (2 nop), 0 MV transfers, 16 cycles (0 waiting)
  sum.vsm: line 2: fvadd reads $lm0, which nothing has written: LM0(n0c0b0m0p1,0) and 2031 more
  [1]
  $ sed 's/n0c0b0m0p0//' sum.vsm > all.vsm
  $ kodama sim all.vsm --chip tiny --check-uninitialized
  4 steps (2 nop), 0 MV transfers, 16 cycles (0 waiting)
