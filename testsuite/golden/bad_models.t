Models that are wrong: one message with node and reason, exit code 2; 3 for what is right but can't be taken.

  $ cp -r "$TESTDIR/models" .; cd models

A cycle, nodes that aren't sorted, a value that nobody or two nodes make:

  $ kodama run wrong/cycle.onnx
  kodama: error: wrong/cycle.onnx: the graph has a cycle: node 'first' (Add) reads the result of node 'second' (Neg), which depends on it (node 'first' (Add) -> node 'second' (Neg))
  [2]
  $ kodama run wrong/unsorted.onnx
  kodama: error: wrong/unsorted.onnx: node 'last' (Relu) reads 'a', which node 'first' (Neg) makes only later; sort the nodes such that each comes after those whose results it reads
  [2]
  $ kodama run wrong/nobody_makes.onnx
  kodama: error: wrong/nobody_makes.onnx: node 'sum' (Add) reads 'z', which no input, initializer or node makes
  [2]
  $ kodama run wrong/made_twice.onnx
  kodama: error: wrong/made_twice.onnx: node 'other' (Abs) makes the value 'a', which node 'one' (Neg) makes, too; a value has one maker
  [2]

Attributes of another type, or that the operator doesn't have:

  $ kodama run wrong/attribute_type.onnx
  kodama: error: wrong/attribute_type.onnx: node 'soft' (Softmax): attribute 'axis' is a string; it must be an integer
  [2]
  $ kodama run wrong/attribute_unknown.onnx
  kodama: error: wrong/attribute_unknown.onnx: node 'soft' (Softmax): it has the attribute 'axes'; the operator has axis
  [2]

Shapes and types that contradict each other or the data, an index out of range:

  $ kodama run wrong/shapes.onnx
  kodama: error: wrong/shapes.onnx: node 'sum' (Add): input A 'x' (float32 [2, 3]) and input B 'w' (float32 [4]) can't be broadcast together: 1 or the same extent is allowed on each axis, counted from the last
  [2]
  $ kodama run wrong/output_shape.onnx
  kodama: error: wrong/output_shape.onnx: node 'turn' (Transpose): its output 'y' is float32 [3, 2], but the model says float32 [2, 3]: they differ in dimension 0
  [2]
  $ kodama run wrong/tensor_data.onnx
  kodama: error: wrong/tensor_data.onnx: initializer 'w': raw_data holds 12 bytes, but float32 of shape [5] needs 20
  [2]
  $ kodama run wrong/types.onnx
  kodama: error: wrong/types.onnx: node 'sum' (Add): input A 'x' (float32 [2, 3]) and input B 'w' (int64 [3]) must have the same element type
  [2]
  $ kodama run wrong/index.onnx --chip tiny
  kodama: error: node 'pick' (Gather): index 7 on axis 0 of [2, 3]
  [2]

Data in other files: missing, too short, outside the model's folder; and as they should be:

  $ kodama run wrong/external_missing.onnx
  kodama: error: wrong/external_missing.onnx: initializer 'w': its data are in 'wrong/gone.bin', which can't be found: No such file or directory
  [2]
  $ kodama run wrong/external_short.onnx
  kodama: error: wrong/external_short.onnx: initializer 'w': its data are too short: file 'w.bin' has 16 bytes, of which 8 from offset 8; its type and shape (float32 [3]) need 12
  [2]
  $ kodama run wrong/external_outside.onnx
  kodama: error: wrong/external_outside.onnx: initializer 'w': its data are in '../x.npy'; a path inside the model's folder is allowed
  [2]
  $ ln -s ../x.npy wrong/gone.bin; kodama run wrong/external_missing.onnx 2>&1 | sed "s|$PWD|.|"
  kodama: error: wrong/external_missing.onnx: initializer 'w': its data are in 'wrong/gone.bin', a symbolic link that leads out of the model's folder to './x.npy'
  $ kodama run wrong/external.onnx --chip tiny | grep reference:
  y against the CPU reference: max abs 0.00e+00, over largest magnitude 0.00e+00 (allowed 1e-03): ok

A domain that the model has no functions of, and what opset 17 can't say:

  $ kodama run wrong/domain.onnx
  kodama: not supported: wrong/domain.onnx: node 'attend' (com.example.FlashAttention): the operator 'FlashAttention' of the domain 'com.example' isn't ONNX's, and the model has no function of that name; export the model with ONNX's own operators, or with a function that defines it
  [3]
  $ kodama run wrong/antialias.onnx
  kodama: not supported: wrong/antialias.onnx: node 'shrink' (Resize) of opset 18: antialias=1 where a picture may shrink can't be expressed in opset 17, which Kodama works on; export with antialias=0, or resize before the model
  [3]

A model of opset 21 and IR version 10, with a function of its own:

  $ kodama run newer.onnx --chip tiny | grep reference:
  y against the CPU reference: max abs 1.19e-07, over largest magnitude 6.23e-08 (allowed 1e-03): ok
