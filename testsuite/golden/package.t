A compiled model is a directory. Its stages that run one after the other are one program, stages are regions of it:

  $ cp -r "$TESTDIR/models" .
  $ kodama compile models/linear.onnx --chip tiny -o package
  package: 1 stages, 27 steps, 3 MV transfers, for chip tiny at gfloat precision
  $ ls package package/programs
  package:
  constants
  images
  manifest.json
  programs
  
  package/programs:
  0000_product.vsm
  $ grep region package/programs/*.vsm
  # region product
  # endregion
  $ kodama check package/programs/*.vsm --chip tiny
  package/programs/0000_product.vsm: no hazards
  $ kodama sim package | head -3
  #  layer    operators    kind      output  where  steps  cycles  step cycles  wait  fetch           times bound  link cycles  host moves  max abs  max rel
  ----------------------------------------------------------------------------------------------------------------------------------------------------------
  0  product  MatMul+Relu  Contract  [2, 4]  chip      27     276          108   165      3  23.0x L2BM, L1B side         1532           -        -        -

A damaged package is refused:

  $ cp package/manifest.json right.json; damage() { sed "$1" right.json > package/manifest.json; kodama sim package; }
  $ damage 's/"version": 4/"version": 3/'
  kodama: error: package: found package version 3, allowed is 4; compile the model again
  [2]
  $ damage 's/"first_stage": 0/"first_stage": 1/'
  kodama: error: package: found a segment of stages 1 to 1, allowed are 0 to 0
  [2]
  $ damage 's/"stages": [0-9],/"stages": 9,/'
  kodama: error: package: package/programs/0000_product.vsm: found 1 regions, allowed are those of 9 stages, the first in the first line
  [2]
  $ damage 's/"program": "/"program": "..\//'
  kodama: error: package: file name "../programs/0000_product.vsm" leads out of the package
  [2]
  $ cp right.json package/manifest.json; sed -i 1d package/programs/*.vsm; kodama sim package
  kodama: error: package: package/programs/0000_product.vsm: found 0 regions, allowed are those of 1 stages, the first in the first line
  [2]
