Packages with test data, and programs with hazards.

  $ cp -r "$TESTDIR/../models/mnist8" .
  $ kodama compile mnist8/model.onnx --chip tiny -o package > /dev/null
  $ kodama sim package --test-data mnist8 --brief | grep -E "^===|against"
  === test_data_set_0 ===
  Plus214_Output_0 against the recorded output: max abs 1.01e-01, over largest magnitude 1.53e-05 (allowed 1e-03): ok
  === test_data_set_1 ===
  Plus214_Output_0 against the recorded output: max abs 9.13e-02, over largest magnitude 1.81e-05 (allowed 1e-03): ok
  === test_data_set_2 ===
  Plus214_Output_0 against the recorded output: max abs 4.54e-02, over largest magnitude 1.22e-05 (allowed 1e-03): ok
  $ kodama sim package --test-data mnist8 --brief --output-dir out --quiet; ls out
  test_data_set_0
  test_data_set_1
  test_data_set_2
  $ kodama sim package --test-data mnist8 --brief --tolerance 1e-9 | grep -c FAILED
  3
  $ kodama sim package --test-data mnist8 --tolerance 1e-9 --quiet > /dev/null
  Plus214_Output_0 against the recorded output: max abs 1.01e-01, over largest magnitude 1.53e-05 (allowed 1e-09): FAILED; at [0, 2]: found 6574.468, expected 6574.5684
  Plus214_Output_0 against the recorded output: max abs 9.13e-02, over largest magnitude 1.81e-05 (allowed 1e-09): FAILED; at [0, 0]: found 5041.7974, expected 5041.8887
  Plus214_Output_0 against the recorded output: max abs 4.54e-02, over largest magnitude 1.22e-05 (allowed 1e-09): FAILED; at [0, 9]: found 3715.3347, expected 3715.3801
  [1]
  $ kodama sim package --test-data mnist8 --seed 3
  kodama: error: --seed: no effect with --test-data, which has the inputs
  [2]
  $ kodama sim package --tolerance 1
  kodama: error: --tolerance: no effect without --test-data
  [2]
  $ kodama sim package --test-data .
  kodama: error: ./model.onnx: can't be read
  [2]
  $ printf 'nop\n' > p.vsm; kodama sim p.vsm --test-data mnist8
  kodama: error: sim --test-data: no effect on a program; what has one: --check-uninitialized, --chip, --dump, --hazards, --memory, --no-timing, --plugin, --seed, --stats, --stats-file, --threads, --trace, --trace-from, --trace-limit, --trace-to, --vcd, program
  [2]

A program that reads what isn't there yet runs, with a word about it:

  $ printf 'linc $lr0v $lr0v\nlpassa $lr0v $ln0v\n' > bad.vsm
  $ kodama sim bad.vsm
  bad.vsm: 1 hazard, which this run ignored; 'kodama check' lists them, --hazards=stale runs as the hardware
  2 steps (0 nop), 0 MV transfers, 8 cycles (0 waiting)
  $ kodama sim bad.vsm --quiet
  $ kodama sim bad.vsm --hazards=stale
  2 steps (0 nop), 0 MV transfers, 8 cycles (0 waiting)
  $ kodama sim p.vsm
  1 steps (1 nop), 0 MV transfers, 4 cycles (0 waiting)
