Hazards are found and named:

  $ cat > bad.vsm <<'END'
  > linc $lm0v $lm0v
  > lpassa $lm0v $ln0v
  > nop/2
  > mvp/n64i01 $lc0@0.0 $d0@0
  > l2bmd $lb0 $lc0
  > nop; wait i02
  > lpassa $aluf $lr0v
  > END
  $ kodama check bad.vsm
  bad.vsm:2: 'lpassa' reads LM0 word 0, which 'linc' of line 1 writes: 0 steps between, 2 needed
  bad.vsm:5: 'l2bmd' writes L2BM LW 0 to 255, which 'mvp' of line 4 reads: no 'wait i01' in between
  bad.vsm:6: 'wait i02', but no transfer before has this tag
  bad.vsm:7: 'lpassa' reads $aluf of line 2, but the step of line 5 after it has no ALU instruction: the value is undefined
  [1]

  $ kodama sim bad.vsm --hazards=error
  kodama: error: 4 hazards; 'kodama check' lists them
  bad.vsm:2: 'lpassa' reads LM0 word 0, which 'linc' of line 1 writes: 0 steps between, 2 needed
  bad.vsm:5: 'l2bmd' writes L2BM LW 0 to 255, which 'mvp' of line 4 reads: no 'wait i01' in between
  bad.vsm:6: 'wait i02', but no transfer before has this tag
  bad.vsm:7: 'lpassa' reads $aluf of line 2, but the step of line 5 after it has no ALU instruction: the value is undefined
  [2]

A clean program:

  $ cat > good.vsm <<'END'
  > linc $lm0v $lm0v
  > nop/2
  > lpassa $lm0v $ln0v
  > END
  $ kodama check good.vsm
  good.vsm: no hazards

What the hardware would compute:

  $ cat > early.vsm <<'END'
  > d set $lr0n0c0b0m0p0 1 0000000000000005
  > linc $lr0 $lr0
  > linc $lr0 $ls0v
  > d get $ls0n0c0b0m0p0 4
  > END
  $ kodama sim early.vsm --hazards=ignore 2> /dev/null | cut -d' ' -f2-3
  i:{{0x0,0x0},{0x0,0x7}}, v:0x7)
  i:{{0x0,0x0},{0x0,0x7}}, v:0x7)
  i:{{0x0,0x0},{0x0,0x7}}, v:0x7)
  i:{{0x0,0x0},{0x0,0x7}}, v:0x7)

  $ kodama sim early.vsm --hazards=stale 2> /dev/null | cut -d' ' -f2-3
  i:{{0x0,0x0},{0x0,0x6}}, v:0x6)
  i:{{0x0,0x0},{0x0,0x6}}, v:0x6)
  i:{{0x0,0x0},{0x0,0x6}}, v:0x6)
  i:{{0x0,0x0},{0x0,0x7}}, v:0x7)

  $ kodama check early.vsm
  early.vsm:3: 'linc' reads GRF0 word 0, which 'linc' of line 2 writes: 0 steps between, 2 needed
  [1]

A compiled model keeps the rules:

  $ cp -r "$TESTDIR/models" .
  $ kodama compile models/linear.onnx --chip tiny -o package > /dev/null
  $ kodama check package
  0 of 2 programs have hazards
  package: no hazards

  $ kodama sim early.vsm --hazards=never
  kodama: error: --hazards: found 'never', allowed: ignore, error, stale, stall
  Run with --help for more information.
  [2]

