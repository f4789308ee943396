Inferences in flight: while the chip computes one, the next one's data come and the last one's results leave.

  $ cp -r "$TESTDIR/models" .
  $ cp "$TESTDIR/../models/mnist8/model.onnx" mnist8.onnx
  $ kodama run mnist8.onnx --repeat 6 --pipeline --classes --json row.json | grep -v 'wall time'
  wrote row.json
  6 inferences, 2 in flight:
  latency of one alone                    6242 cycles     0.0083 ms
  latency in the row, at most             9641 cycles     0.0129 ms
  from one to the next                    3399 cycles     0.0045 ms  220653 inferences per second
  one takes of the chip                   3176 cycles     0.0042 ms
  of the link to it                       1083 cycles     0.0014 ms
  of the link from it                      122 cycles     0.0002 ms
  the slower of link and chip is the chip: the row reaches 93.4 % of it
  outputs of all 6 inferences: the same bits as one by one
  Plus214_Output_0 float32 [1, 10]: -1.8646 1.3525 -0.670305 -0.869745 -0.636945 4.06789 6.18803 -0.576755 -3.0808 -3.21166
  class found: 6
  Plus214_Output_0 against the CPU reference: max abs 9.82e-05, over largest magnitude 1.59e-05 (allowed 1e-03): ok
  $ /usr/bin/python3 -c 'import json; print(*json.load(open("row.json")))'
  inferences in_flight latency_alone_cycles latency_cycles cycles_per_inference inferences_per_second chip_cycles link_to_chip_cycles link_from_chip_cycles host_cycles slower share_of_slower same_bits passed wall_seconds

One alone has nothing to overlap with; short programs wait for the latency of the link, which each shows once:

  $ for k in 1 2 4; do kodama run models/linear.onnx --chip tiny --repeat 9 --pipeline --in-flight $k --no-compare | grep -E 'in flight|from one|slower'; done
  9 inferences, 1 in flight:
  from one to the next                    2616 cycles     0.0035 ms  286697 inferences per second
  the slower of link and chip is the chip: the row reaches 10.1 % of it
  9 inferences, 2 in flight:
  from one to the next                     943 cycles     0.0013 ms  795214 inferences per second
  the slower of link and chip is the chip: the row reaches 28.0 % of it
  9 inferences, 4 in flight:
  from one to the next                     870 cycles     0.0012 ms  862069 inferences per second
  the slower of link and chip is the chip: the row reaches 30.3 % of it

A row without the pipeline: the next run's data come beside the present one, too:

  $ kodama run mnist8.onnx --repeat 3 --no-compare | grep 'of that the host'
  of that the host:               223 cycles: data to the chip 0, from it 223, launches 0, its layers 0
  $ kodama run mnist8.onnx --repeat 3 --no-compare --host serial | grep 'of that the host'
  of that the host:               3066 cycles: data to the chip 1438, from it 878, launches 750, its layers 0

Inputs from files are those of all inferences:

  $ kodama run models/linear.onnx --chip tiny --input x=models/x.npy --repeat 3 --pipeline --output-dir out | grep '^y'
  wrote out/y.pb (output 'y')
  y float32 [2, 4]: 1.00187 0.995693 0 0.710895 0 0 0 1.26663
  y against the CPU reference: max abs 4.99e-05, over largest magnitude 3.94e-05 (allowed 1e-03): ok
  $ kodama run models/linear.onnx --chip tiny --input x=models/x.npy --output-dir again > /dev/null
  wrote again/y.pb (output 'y')
  $ cmp out/y.pb again/y.pb

What says nothing here is refused:

  $ kodama run models/linear.onnx --chip tiny --pipeline
  kodama: error: --repeat 1: --pipeline needs more inferences than the 2 in flight
  [2]
  $ kodama run models/linear.onnx --chip tiny --repeat 3 --in-flight 2
  kodama: error: --in-flight requires --pipeline
  Run with --help for more information.
  [2]
  $ kodama run models/linear.onnx --chip tiny --repeat 3 --pipeline --in-flight 0
  kodama: error: --in-flight: found '0', allowed: a whole number from 1 to 1000
  Run with --help for more information.
  [2]
  $ kodama run models/linear.onnx --chip tiny --repeat 3 --pipeline --host serial
  kodama: error: --host serial: not with --pipeline, which overlaps what the host does
  [2]
  $ kodama run models/linear.onnx --chip tiny --repeat 3 --pipeline --no-timing
  kodama: error: --no-timing: not with --pipeline, which shows time
  [2]
  $ kodama run models/linear.onnx --chip tiny --repeat 3 --pipeline --stats
  kodama: error: --stats, --trace, --vcd: not with --pipeline, which is about many runs; use --repeat alone
  [2]
  $ kodama run models/symbolic.onnx --chip tiny --repeat 3 --pipeline
  kodama: not supported: --pipeline: input 'x' is float32 [batch, 8], so the model is compiled in parts while it runs; --dim and --bind fix its shapes
  [3]
  $ kodama run models/gather.onnx --chip tiny --input i=models/i.npy --repeat 3 --pipeline
  kodama: error: node 'look up' (Gather): an index in 'i' is out of range; allowed are -3 to 2
  [2]
