A chip file is validated completely.

  $ cp "$TESTDIR/../../configs/tiny.yaml" .
  $ cp "$TESTDIR/models/linear.onnx" .
  $ try() { kodama run linear.onnx --chip ./chip.yaml; }

  $ sed 's/^name:/nmae:/' tiny.yaml > chip.yaml; try
  kodama: error: ./chip.yaml:7:1: unknown key 'nmae' in a chip file; allowed: name, description, counts, clock_hz, memory, transfer, dram, host_link, host, hazard, base
  [2]
  $ grep -v 'clock_hz' tiny.yaml > chip.yaml; try
  kodama: error: ./chip.yaml:7:1: missing key 'clock_hz' in a chip file: clock, in Hz; allowed: a number from 1000000 to 100000000000
  [2]
  $ sed 's/groups: [0-9]*/groups: two/' tiny.yaml > chip.yaml; try
  kodama: error: ./chip.yaml:11:11: 'counts.groups' is 'two'; allowed: a power of two from 1 to 16, in groups
  [2]
  $ sed 's/groups: [0-9]*/groups: 3/' tiny.yaml > chip.yaml; try
  kodama: error: ./chip.yaml:11:11: 'counts.groups' is 3; allowed: a power of two from 1 to 16, in groups
  [2]
  $ sed 's/groups: [0-9]*/groups: -1/' tiny.yaml > chip.yaml; try
  kodama: error: ./chip.yaml:11:11: 'counts.groups' is -1; allowed: a power of two from 1 to 16, in groups
  [2]
  $ sed 's/groups: [0-9]*/groups: [1/' tiny.yaml > chip.yaml; try
  kodama: error: ./chip.yaml:12:16: not valid YAML: end of sequence flow not found
  [2]
  $ : > chip.yaml; try
  kodama: error: ./chip.yaml:1:1: found nothing, but a chip file is a section with the keys name, description, counts, clock_hz, memory, transfer, dram, host_link, host, hazard, base
  [2]
  $ kodama run linear.onnx --chip ./no_such.yaml
  kodama: error: ./no_such.yaml: can't read the chip file: No such file or directory
  [2]
