How much is said: --quiet, --verbose, --brief, --moves, --legend; colours.

  $ cp -r "$TESTDIR/models" .; cp "$TESTDIR/../models/mnist8/model.onnx" mnist.onnx
  $ printf 'linc $lr0v $lr0v\nlpassa $lr0v $ln0v\nd get $ln0n0c0b0m0p0 1\n' > p.vsm
  $ untimed() { sed -E 's/[0-9]+\.[0-9]{2} s/T s/g'; }

Tables of layers and of Moves, with what their columns say:

  $ kodama run models/linear.onnx --chip tiny --brief | untimed
  the problem's bound: 1 cycles (products 1, vector operations 1, DRAM 1 for weights that don't stay in the PEs, inputs and outputs)
  chip tiny, gfloat precision: 22 steps, 264 chip cycles of which 176 wait for transfers, 1602 host link cycles
  a run, constants on the chip:   2616 cycles, 0.003 ms at 750 MHz, 1024 B of DRAM traffic
  the first, sending constants:   3571 cycles, 0.005 ms at 750 MHz, 1536 B of DRAM traffic (512 B, 835 link cycles; 120 chip cycles to bring weights to the PEs)
  of that the host:               2352 cycles: data to the chip 835, from it 767, launches 750, its layers 0
  its data occupy the DRAMs for   15 cycles of 2 interfaces
  planner pbqp: 0 relayouts on the chip take 0 of 264 chip cycles (0 %), 0 layout changes by the host
  y float32 [2, 4]: 2.51689 1.43989 0 3.603 0.408309 0 5.00858 1.80331
  y against the CPU reference: max abs 5.01e-05, over largest magnitude 1.00e-05 (allowed 1e-03): ok
  wall time: import T s, compile T s, inputs T s, load chip T s, run T s, reference T s, report T s, in all T s
  $ kodama run models/linear.onnx --chip tiny --legend | sed -n '/^left out/p;/^  [#a-z]/p'
    #                    place in the run
    layer                name of its first operator
    operators            what it is made of, in ONNX
    kind                 kind of layer (docs/overview.md); Relayout: a Move between two layers
    output               shape of its first result
    where                on the chip, or on the host by the CPU reference
    steps                how many instructions issue
    cycles               of the chip, waiting included
    step cycles          of the cycles: steps that issue, 4 each
    wait                 of the cycles: held by `wait`, for transfers
    of peak              products over what the matrix unit could do in these cycles
    times bound          cycles over what the problem takes at the peaks, whatever the plan
    link cycles          data and instructions on the host link
    host relayouts       tensors that the host brings into another layout
    max abs              largest difference to the CPU reference
    max rel              the same, over the largest magnitude
  $ kodama run mnist.onnx --chip tiny --moves --brief | grep -A3 ^move | cut -c 1-60
  move              cycles  DRAM  ratio  from                 
  ------------------------------------------------------------
  Convolution28.b     1391   442    3.1  ((392:1, 2_W:1))@LM0 
  Pooling66.x0        1120   225    5.0  ((1:28), (1:28, 1:28,
  $ kodama run mnist.onnx --chip tiny | grep -c ^move
  0
  [1]
  $ kodama run mnist.onnx --chip tiny | grep lists
  planner pbqp: 5 relayouts on the chip take 5935 of 9789 chip cycles (61 %), 0 layout changes by the host; --moves lists them

Nothing but errors, what failed, and what was asked for:

  $ kodama run models/linear.onnx --chip tiny --quiet --json run.json --output-dir out; ls run.json out
  run.json
  
  out:
  y.npy
  y.pb
  $ kodama --quiet run models/linear.onnx --chip tiny
  $ kodama run models/linear.onnx --chip tiny --quiet --tolerance 0
  y against the CPU reference: max abs 5.01e-05, over largest magnitude 1.00e-05 (allowed 0e+00): FAILED; at [1, 2]: found 5.008576, expected 5.008626
  first layer out of tolerance: 'product' (MatMul+Relu): max abs 5.01e-05, over largest magnitude 1.00e-05 (allowed 0e+00): FAILED; at [1, 2]: found 5.008576, expected 5.008626
  what products lose at gfloat may be the reason: try --precision float
  [1]
  $ kodama compile models/linear.onnx --chip tiny --quiet -o package
  $ kodama sim package --quiet
  $ kodama sim p.vsm --quiet
  DEBUG-LM1(n0c0b0m0p0,0):(f:0, i:{{0x0,0x0},{0x0,0x1}}, v:0x1) #d get $ln0n0c0b0m0p0 1
  $ kodama opt package/nothing.vsm --quiet
  kodama: error: package/nothing.vsm: can't be read: No such file or directory
  [2]
  $ kodama chips --quiet | head -1
  mncore1    4 groups x 4 L2B x 8 L1B x 16 MAB x 4 PE = 8192 PEs, 500 MHz: MN-Core-1-like chip, 8192 PEs, 524 TFLOPS half precision
  $ kodama asm p.vsm --quiet | head -1
  linc $lr0v $lr0v
  $ kodama run models/linear.onnx --chip tiny --quiet --stats | head -2
  2616 cycles, 0.003 ms on tiny at 750 MHz
    steps                                   88    3.4 %
  $ kodama run models/linear.onnx --quiet --verbose
  kodama: error: --quiet excludes --verbose
  Run with --help for more information.
  [2]

All there is, with the time of each phase:

  $ kodama run models/linear.onnx --chip tiny --verbose 2>&1 >/dev/null | untimed
  importing: T s
  compiling: T s
  reading inputs: T s
  loading the chip: T s
  running: T s
  computing the CPU reference: T s
  $ kodama run models/linear.onnx --chip tiny --verbose 2>/dev/null | grep -c "^  times bound"
  1

Statistics for programs have standard output for themselves:

  $ kodama run models/linear.onnx --chip tiny --stats json 2>/dev/null | /usr/bin/python3 -c 'import json, sys; print(type(json.load(sys.stdin)))'
  <class 'dict'>
  $ kodama sim p.vsm --stats json 2>rest | /usr/bin/python3 -c 'import json, sys; print(type(json.load(sys.stdin)))'; cat rest
  <class 'dict'>
  DEBUG-LM1(n0c0b0m0p0,0):(f:0, i:{{0x0,0x0},{0x0,0x1}}, v:0x1) #d get $ln0n0c0b0m0p0 1
  p.vsm: 1 hazard, which this run ignored; 'kodama check' lists them, --hazards=stale runs as the hardware
  2 steps (0 nop), 0 MV transfers, 8 cycles (0 waiting)
  $ kodama sim p.vsm --stats=csv --no-timing
  kodama: error: --no-timing: allowed only without --stats, --trace and --vcd, which show time
  [2]
  $ kodama sim package --stats csv 2>/dev/null | head -1
  scope,name,cycles,cycles_steps,cycles_wait,cycles_mv_queue,cycles_host_link,cycles_hazard,cycles_drain,cycles_host_input,cycles_host_output,cycles_launch,cycles_host_compute,steps,transfers,l2bm_steps,l1bm_steps,mau_steps,alu_steps,empty_steps,mau_utilization,dram_read_bytes,dram_written_bytes,pdm_read_bytes,pdm_written_bytes,l2bm_mv_read_bytes,l2bm_mv_written_bytes,l2bm_read_bytes,l2bm_written_bytes,l1bm_l2bm_read_bytes,l1bm_l2bm_written_bytes,l1bm_read_bytes,l1bm_written_bytes,lm_read_bytes,lm_written_bytes,grf_read_bytes,grf_written_bytes,roofline_cycles,roofline_resource
  $ kodama run models/linear.onnx --chip tiny --stats json --json -
  kodama: error: standard output: two outputs would go there; each needs a file of its own
  [2]

Colours, on a terminal that has them, and where nobody asks for none:

  $ on_terminal() { script -qec "$*" /dev/null < /dev/null | tr -d '\r' | sed 's/\x1b/ESC/g'; }
  $ TERM=xterm on_terminal "kodama run models/linear.onnx --chip tiny --brief" | grep against
  ESC[32my against the CPU reference: max abs 5.01e-05, over largest magnitude 1.00e-05 (allowed 1e-03): ok
  $ TERM=xterm on_terminal "kodama run models/linear.onnx --chip tiny --brief --tolerance 0" | grep -m1 against
  ESC[1;31my against the CPU reference: max abs 5.01e-05, over largest magnitude 1.00e-05 (allowed 0e+00): FAILED; at [1, 2]: found 5.008576, expected 5.008626
  $ TERM=xterm on_terminal "kodama chips --keys" | head -1
  ESC[1mkey                                 unit                     allowed                                    meaning
  $ TERM=xterm on_terminal "kodama run nothing.onnx"
  ESC[1;31mkodama: error: ESC[0mnothing.onnx: no such file
  $ TERM=xterm NO_COLOR=1 on_terminal "kodama run nothing.onnx"
  kodama: error: nothing.onnx: no such file
  $ TERM=dumb on_terminal "kodama run nothing.onnx"
  kodama: error: nothing.onnx: no such file
  $ TERM=xterm NO_COLOR= on_terminal "kodama asm '$(printf 'a\033[31m')'"
  ESC[1;31mkodama: error: ESC[0ma\u001b[31m: can't be read: No such file or directory
  $ kodama run nothing.onnx 2>&1 | od -c | grep -c 033
  0
  [1]

A terminal sees progress of what takes longer than a second: the phase and how far it is. Nobody else does, and with --quiet nobody.

  $ long="kodama fuzz --chip tiny --steps 1000000000 --seconds 2"
  $ on_terminal "$long" | grep -oE "fuzzing (\[|for)" | head -1 | cut -c 1-7
  fuzzing
  $ on_terminal "$long --quiet 2>&1" | grep -c "fuzzing"
  0
  [1]
  $ $long 2>&1 >/dev/null
