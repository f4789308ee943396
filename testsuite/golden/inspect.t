What a model is, and where its operators will run.

  $ cp -r "$TESTDIR/models" .
  $ cp "$TESTDIR/../models/mnist8/model.onnx" mnist.onnx
  $ kodama inspect mnist.onnx
  mnist.onnx: opset 8, IR version 3, written by CNTK 2.5.1
    input          Input3  float32 [1, 1, 28, 28]
    output         Plus214_Output_0  float32 [1, 10]
    parameters     5,998, 24,008 bytes
    multiply-adds  786.6 k in a run, on the chip
  
  operator                 nodes  chip  host  none refused  mul-adds  as
  Add                          3     3     -     -       -         -  Map
  Conv                         2     2     -     -       -   784.0 k  Contract
  MatMul                       1     1     -     -       -     2.6 k  Contract
  MaxPool                      2     2     -     -       -         -  Reduce
  Relu                         2     2     -     -       -         -  Map
  Reshape                      2     -     -     2       -         -
  in all                      12    10     -     2       -   786.6 k
  none: nothing to compute in a run (constant, joined with another, a new shape)

Open dimensions, and an operator of several kinds of layers:

  $ kodama inspect models/mixed.onnx --json mixed.json
  models/mixed.onnx: opset 17, IR version 8, written by kodama
    input          x  float32 [1, 8]
    output         y  float32 [1, 2]
    parameters     33, 136 bytes
    multiply-adds  32 in a run, on the chip
  Open dimensions count as 1 here; --dim NAME=N sets them: batch
  
  operator                 nodes  chip  host  none refused  mul-adds  as
  MatMul                       1     1     -     -       -        32  Contract
  Mul                          1     1     -     -       -         -  Map
  TopK                         1     1     -     -       -         -  Gather+Map..
  in all                       3     3     -     -       -        32
  wrote mixed.json
  $ /usr/bin/python3 -c 'import json; m = json.load(open("mixed.json")); print(m["open_dimensions"], m["parameters"], [(r["operator"], r["place"]) for r in m["not_on_the_chip"]])'
  ['batch'] {'count': 33, 'bytes': 136} []
  $ kodama inspect models/mixed.onnx --dim batch=4 | grep -e input -e "^ .*adds" -e Open
    input          x  float32 [4, 8]
    multiply-adds  128 in a run, on the chip

Operators that nobody computes: judged by their names, since no types follow:

  $ kodama inspect models/wrong/domain.onnx
  models/wrong/domain.onnx: opset 17, IR version 8, written by kodama
    input          x  float32 [2, 3]
    output         y  float32 [2, 3]
    parameters     0, 0 bytes
  Types and shapes aren't known: models/wrong/domain.onnx: node 'attend'
    (com.example.FlashAttention): the operator 'FlashAttention' of the domain
    'com.example' isn't ONNX's, and the model has no function of that name; export
    the model with ONNX's own operators, or with a function that defines it
  Operators are judged by their names; types and shapes may send more to the host.
  
  operator                 nodes  chip  host  none refused  mul-adds  as
  com.example.FlashAtte..      1     -     -     -       1         -
  in all                       1     -     -     -       1         -
  
  Refused:
    com.example.FlashAttention (attend): operator FlashAttention is unknown in
      domain 'com.example', version 1

Wrong models are refused as ever; no line is longer than 80:

  $ kodama inspect models/wrong/cycle.onnx
  kodama: error: models/wrong/cycle.onnx: the graph has a cycle: node 'first' (Add) reads the result of node 'second' (Neg), which depends on it (node 'first' (Add) -> node 'second' (Neg))
  [2]
  $ kodama inspect
  kodama: error: inspect: name a model, or give --operators
  [2]
  $ for model in mnist.onnx models/*.onnx; do kodama inspect $model 2> /dev/null; done | grep -c '.\{81\}'
  0
  [1]
