A small network on the small chip: inputs from files, a table, JSON, dumps.

  $ cp -r "$TESTDIR/models" .
  $ kodama run models/linear.onnx --chip tiny --input x=models/x.npy --json run.json --output-dir out | sed 's/wall time.*/wall time/'
  $ ls out
  $ grep -c '"kind"' run.json
  $ kodama run models/linear.onnx --chip tiny --input x=models/two.npz:a > /dev/null
  $ kodama run models/symbolic.onnx --chip tiny --dim batch=5 | grep Contract | wc -l

The compiled package computes the same bits:

  $ kodama compile models/linear.onnx --chip tiny -o package
  $ kodama sim package --input x=models/x.npy --output-dir again > /dev/null
  $ cmp out/y.pb again/y.pb

Compiling again replaces the package:

  $ kodama compile models/linear.onnx --chip tiny --precision float -o package > /dev/null
  $ ls -A | sort

What the chip can't do runs on the host, with the reason:

  $ kodama run models/host.onnx --chip tiny --input i=models/i.npy | grep -A5 'computed on the host'

Weights with NaN and infinity are computed as the chip would:

  $ kodama run models/nan_weights.onnx --chip tiny --input x=models/ones22.npy --no-compare | grep '^y'

Dumps are files:

  $ kodama run models/linear.onnx --chip tiny --dump-after tile --dump-after lower > /dev/null; ls kodama-dump | sed 's/^[0-9]*//'
