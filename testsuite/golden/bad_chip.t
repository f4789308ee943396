A chip file is validated completely.

  $ cp "$TESTDIR/../../configs/tiny.yaml" .
  $ cp "$TESTDIR/models/linear.onnx" .
  $ try() { kodama run linear.onnx --chip ./chip.yaml; }

  $ sed 's/^name:/nmae:/' tiny.yaml > chip.yaml; try
  $ grep -v 'clock_hz' tiny.yaml > chip.yaml; try
  $ sed 's/groups: [0-9]*/groups: two/' tiny.yaml > chip.yaml; try
  $ sed 's/groups: [0-9]*/groups: 3/' tiny.yaml > chip.yaml; try
  $ sed 's/groups: [0-9]*/groups: -1/' tiny.yaml > chip.yaml; try
  $ sed 's/groups: [0-9]*/groups: [1/' tiny.yaml > chip.yaml; try
  $ : > chip.yaml; try
  $ kodama run linear.onnx --chip ./no_such.yaml
