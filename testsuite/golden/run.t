A small network on the small chip: inputs from files, a table, JSON, dumps.

  $ cp -r "$TESTDIR/models" .
  $ kodama run models/linear.onnx --chip tiny --input x=models/x.npy --json run.json --output-dir out | sed 's/wall time.*/wall time/'
  #  layer    operators    kind      output  where  steps  cycles  step cycles  wait           of roofline  link cycles  host moves  max abs  max rel
  ---------------------------------------------------------------------------------------------------------------------------------------------------
  0  product  MatMul+Relu  Contract  [2, 4]  chip      29     380          116   264  31.7x L2BM, L1B side         1532  2 (1024 B)  5.0e-05  3.9e-05
  ---------------------------------------------------------------------------------------------------------------------------------------------------
     total                                             29     380          116   264  31.7x L2BM, L1B side         1532  2 (1024 B)
  chip tiny, gfloat precision: 29 steps, 380 chip cycles of which 264 wait for transfers, 1532 host link cycles: 0.003 ms at 750 MHz; constants 512 B sent once (766 link cycles)
  y float32 [2, 4]: 1.00187 0.995693 0 0.710895 0 0 0 1.26663
  y against the CPU reference: max abs 4.99e-05, over largest magnitude 3.94e-05 (allowed 1e-03): ok
  wall time
  $ ls out
  y.pb
  $ grep -c '"kind"' run.json
  1
  $ kodama run models/linear.onnx --chip tiny --input x=models/two.npz:a > /dev/null
  $ kodama run models/symbolic.onnx --chip tiny --dim batch=5 | grep Contract | wc -l
  1

The compiled package computes the same bits:

  $ kodama compile models/linear.onnx --chip tiny -o package
  package: 1 stages, 29 steps, 3 MV transfers, for chip tiny at gfloat precision
  $ kodama sim package --input x=models/x.npy --output-dir again > /dev/null
  $ cmp out/y.pb again/y.pb

Compiling again replaces the package:

  $ kodama compile models/linear.onnx --chip tiny --precision float -o package > /dev/null
  $ ls -A | sort
  again
  models
  out
  package
  run.json

What the chip can't do runs on the host, with the reason:

  $ kodama run models/host.onnx --chip tiny --input i=models/i.npy | grep -A2 'computed on the host'
  computed on the host by the CPU reference:
    Add 'integer sum': int64 has no arithmetic on the chip's Map kernels
    Cast 'to float': no conversion from int64 to float32 on the chip

Weights with NaN and infinity are computed as the chip would:

  $ kodama run models/nan_weights.onnx --chip tiny --input x=models/ones22.npy --no-compare | grep '^y'
  y float32 [2, 2]: 1 inf inf 2

Dumps are files:

  $ kodama run models/linear.onnx --chip tiny --dump-after tile --dump-after lower > /dev/null; ls kodama-dump | sed 's/^[0-9]*//'
  .lower.linear.json
  .tile.product.txt
