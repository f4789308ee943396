Bad input: a message with the place, exit code 2, nothing half written.

  $ cp -r "$TESTDIR/models" .
  $ cp "$TESTDIR/../models/mnist8/model.onnx" mnist.onnx

A missing file, a directory, a file that is no model, an empty and a truncated one:

  $ kodama run no_such_model.onnx
  kodama: error: no_such_model.onnx: no such file
  [2]
  $ kodama run .
  kodama: error: .: is a directory; an ONNX model is one file
  [2]
  $ echo "not a model" > text.onnx; kodama run text.onnx
  kodama: error: text.onnx: not an ONNX model, or truncated: its 12 bytes aren't a complete protobuf message
  [2]
  $ : > empty.onnx; kodama run empty.onnx
  kodama: error: empty.onnx: the file is empty; an ONNX model is expected
  [2]
  $ head -c 5000 mnist.onnx > cut.onnx; kodama run cut.onnx
  kodama: error: cut.onnx: not an ONNX model, or truncated: its 5000 bytes aren't a complete protobuf message
  [2]

An opset above 21, an operator that nobody knows, a dimension that nobody set:

  $ kodama run models/opset22.onnx
  kodama: error: models/opset22.onnx: opset 22 of ai.onnx; versions 1 to 21 are allowed: export the model again with one of them (in PyTorch opset_version=21), or convert it with onnx.version_converter
  [2]
  $ kodama run models/unknown_operator.onnx
  kodama: error: models/unknown_operator.onnx: node 'odd one' (Frobnicate): unknown operator 'Frobnicate' of ai.onnx (opset 17); allowed are ONNX's operators and functions that the model defines
  [2]
  $ kodama run models/symbolic.onnx
  kodama: error: models/symbolic.onnx: input 'x' is float32 [batch, 8]: give it with --input x=FILE, or the size of a random one, for example: --dim batch=4
  [2]
  $ kodama run models/symbolic.onnx --dim bach=4
  kodama: error: models/symbolic.onnx: --dim bach: the model has no such dimension; it has: batch
  [2]
  $ kodama run models/symbolic.onnx --dim batch=0
  kodama: error: --dim batch=0: allowed is NAME=N with N at least 1, for example --dim batch=4
  [2]

What is too large for a kernel, to be moved, or to count, is not supported, and says what to do:

  $ kodama run models/huge.onnx --dim m=1 --dim n=1 --dim k=1073741824
  kodama: not supported: layer 'product' of node 'product' (Contract product [MatMul]: y [1, 1] <- a [1, 1073741824], b [1073741824, 1]: m:1 (M) n:1 (N) k:1073741824 (K)): no kernel has room for it in the memories of chip 'mncore2'; split the node, or take another chip
  [3]
  $ kodama compile models/huge.onnx --dim m=46000 --dim n=46000 --dim k=46000 -o out
  kodama: not supported: layer 'product' of node 'product' (Contract product [MatMul]: y [46000, 46000] <- a [46000, 46000], b [46000, 46000]: m:46000 (M) n:46000 (N) k:46000 (K)): no kernel has room for it in the memories of chip 'mncore2'; split the node, or take another chip
  [3]
  $ kodama run models/huge_turned.onnx --dim m=8192 --dim n=8192
  kodama: not supported: tensor 'ab': its layout has to change, and its image has 67108864 elements; on the chip at most 33554432 can be moved. Use a smaller --dim, or --planner host, which moves them on the host
  [3]
  $ kodama run models/huge.onnx --dim m=1048576 --dim n=1048576 --dim k=1
  kodama: not supported: models/huge.onnx: value 'y' is float32 [1048576, 1048576]; a tensor of at most 2147483647 elements is supported: set smaller dimensions (--dim), or split it
  [3]
  $ kodama run models/huge.onnx --dim m=1 --dim n=1 --dim k=4611686018427387904
  kodama: not supported: models/huge.onnx: input 'a' is float32 [1, 4611686018427387904]; a tensor of at most 2147483647 elements is supported: set smaller dimensions (--dim), or split it
  [3]
  $ kodama run models/huge.onnx --dim m=1 --dim n=1 --dim k=99999999999999999999
  kodama: error: --dim k=99999999999999999999: allowed is NAME=N with N at least 1, for example --dim batch=4
  [2]

Inputs with a wrong name, type, shape; files that are none:

  $ kodama run models/linear.onnx --chip tiny --input z=models/x.npy
  kodama: error: model 'linear' has no input 'z'; its inputs are: x
  [2]
  $ kodama run models/linear.onnx --chip tiny --input x=models/x_double.npy
  kodama: error: input 'x' of model 'linear': found type float64, allowed is float32
  [2]
  $ kodama run models/linear.onnx --chip tiny --input x=models/x_shape.npy
  kodama: error: input 'x' of model 'linear': found shape [3, 8], allowed is [2, 8]
  [2]
  $ kodama run models/linear.onnx --chip tiny --input x=missing.npy
  kodama: error: missing.npy: can't be read: No such file or directory
  [2]
  $ kodama run models/linear.onnx --chip tiny --input x=models/two.npz
  kodama: error: models/two.npz: the archive holds 2 arrays (a, b); say which one
  [2]
  $ head -c 100 models/x.npy > cut.npy; kodama run models/linear.onnx --chip tiny --input x=cut.npy
  kodama: error: cut.npy: the .npy file is truncated inside its header
  [2]
  $ kodama run models/linear.onnx --chip tiny --input x
  kodama: error: --input x: allowed is NAME=FILE or NAME=FILE.npz:MEMBER
  [2]

Options:

  $ kodama run models/linear.onnx --precision quarter
  kodama: error: precision 'quarter' is unknown, allowed: gfloat, float, half
  [2]
  $ kodama run models/linear.onnx --chip huge
  kodama: error: no chip is named 'huge'; allowed: mncore1, mncore2, tiny, or the path of a chip file (*.yaml)
  [2]
  $ kodama run models/linear.onnx --dump-after nothing
  kodama: error: --dump-after nothing: there is no such pass; allowed are all, canonicalize, fold-constants, expand-functions, fold-batch-normalization, eliminate-dead, lower, channels-first, fold-rearranges, fuse-maps, fuse-epilogues, fuse-sums, split-columns, fill-rows, fuse-transposed-epilogues, split-products, pad-channels, fuse-normalizations, split-axes, split-gathers, split-reductions, plan, tile, machine, loop-expansion, allocation-problem, schedule-problem, copies, bank-coloring, furthest-use, linear-scan, list, modulo, keep
  [2]

A failed compilation leaves nothing behind:

  $ kodama compile models/symbolic.onnx -o out
  kodama: error: models/symbolic.onnx: input 'x' is float32 [batch, 8]: the symbolic dimension batch must be set, for example: --dim batch=4
  [2]
  $ ls out
  ls: cannot access 'out': No such file or directory
  [2]
  $ mkdir mine; touch mine/precious; kodama compile models/linear.onnx --chip tiny -o mine
  kodama: error: mine: exists and is not a kodama package; choose another directory
  [2]
  $ ls -A mine
  precious

Passes in Python need a process that has Python:

  $ touch pass.py; kodama passes --plugin pass.py
  kodama: error: --plugin pass.py: found a file in Python, which this program can't load; allowed: the same command by Python, 'python3 -m kodama ... --plugin pass.py'
  [2]
