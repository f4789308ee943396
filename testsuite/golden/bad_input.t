Bad input: a message with the place, exit code 2, nothing half written.

  $ cp -r "$TESTDIR/models" .
  $ cp "$TESTDIR/../models/mnist8/model.onnx" mnist.onnx

A missing file, a directory, a file that is no model, an empty and a truncated one:

  $ kodama run no_such_model.onnx
  $ kodama run .
  $ echo "not a model" > text.onnx; kodama run text.onnx
  $ : > empty.onnx; kodama run empty.onnx
  $ head -c 5000 mnist.onnx > cut.onnx; kodama run cut.onnx

An opset above 17, an operator that nobody knows, a dimension that nobody set:

  $ kodama run models/opset18.onnx
  $ kodama run models/unknown_operator.onnx
  $ kodama run models/symbolic.onnx
  $ kodama run models/symbolic.onnx --dim bach=4
  $ kodama run models/symbolic.onnx --dim batch=0

Inputs with a wrong name, type, shape; files that are none:

  $ kodama run models/linear.onnx --chip tiny --input z=models/x.npy
  $ kodama run models/linear.onnx --chip tiny --input x=models/x_double.npy
  $ kodama run models/linear.onnx --chip tiny --input x=models/x_shape.npy
  $ kodama run models/linear.onnx --chip tiny --input x=missing.npy
  $ kodama run models/linear.onnx --chip tiny --input x=models/two.npz
  $ head -c 100 models/x.npy > cut.npy; kodama run models/linear.onnx --chip tiny --input x=cut.npy
  $ kodama run models/linear.onnx --chip tiny --input x

Options:

  $ kodama run models/linear.onnx --precision quarter
  $ kodama run models/linear.onnx --chip huge
  $ kodama run models/linear.onnx --dump-after nothing

A failed compilation leaves nothing behind:

  $ kodama compile models/symbolic.onnx -o out
  $ ls out
  $ mkdir mine; touch mine/precious; kodama compile models/linear.onnx --chip tiny -o mine
  $ ls -A mine
