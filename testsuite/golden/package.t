A compiled model is a directory. Its stages that run one after the other are one program, stages are regions of it:

  $ cp -r "$TESTDIR/models" .
  $ kodama compile models/linear.onnx --chip tiny -o package
  package: 1 stages, 22 steps, 2 MV transfers, for chip tiny at gfloat precision
  $ ls package package/programs
  package:
  checksums
  constants
  images
  manifest.json
  programs
  
  package/programs:
  0000_product.vsm
  preparation.vsm
  $ grep region package/programs/0*.vsm
  # region product
  # endregion
  $ kodama check package/programs/0*.vsm --chip tiny
  package/programs/0000_product.vsm: no hazards
  $ kodama sim package | head -3
  #  layer    operators    kind      output  where  steps  cycles  step cycles  wait  of peak  times bound  link cycles  host relayouts  max abs  max rel
  -------------------------------------------------------------------------------------------------------------------------------------------------------
  0  product  MatMul+Relu  Contract  [2, 4]  chip      22     264           88   176    0.0 %  8448.0x MAU         1602               -        -        -

Constants that stay in the PEs are brought there by a program of their own:

  $ kodama compile models/linear.onnx --chip tiny --weights resident -o staying
  staying: 1 stages, 22 steps, 2 MV transfers, for chip tiny at gfloat precision
  $ ls staying/programs; kodama check staying; kodama sim staying | grep -E '^chip|^a run|^the first'; rm -r staying
  0000_product.vsm
  preparation.vsm
  0 of 2 programs have hazards
  staying: no hazards
  chip tiny, gfloat precision: 22 steps, 264 chip cycles of which 176 wait for transfers, 1602 host link cycles
  a run, constants on the chip:   2616 cycles, 0.003 ms at 750 MHz, 1024 B of DRAM traffic
  the first, sending constants:   3571 cycles, 0.005 ms at 750 MHz, 1536 B of DRAM traffic (512 B, 835 link cycles; 120 chip cycles to bring weights to the PEs)

A damaged package is refused, whatever the damage is:

  $ cp -r package right; damage() { rm -rf package; cp -r right package; sed -i "$@"; kodama sim package; }
  $ damage 's/"operation": "/&a/' package/manifest.json
  kodama: error: package/manifest.json: the package is damaged: found 3889 bytes with checksum a4c7652f, written were 3888 with d83041e1
  [2]
  $ damage 1d package/programs/0*.vsm
  kodama: error: package/programs/0000_product.vsm: the package is damaged: found 367 bytes with checksum 6518a29d, written were 384 with 28f6f3ad
  [2]
  $ damage 's/0/1/' package/checksums
  kodama: error: package/images/1000_product_b.bin: can't be read: No such file or directory
  [2]
  $ damage 's/$/ /' package/checksums
  kodama: error: package/images/0000_product_b.bin : can't be read: No such file or directory
  [2]
  $ rm -rf package; cp -r right package; rm package/images/*; kodama sim package
  kodama: error: package/images/0000_product_b.bin: can't be read: No such file or directory
  [2]
  $ rm -rf package; cp -r right package; rm package/checksums; kodama check package
  kodama: error: package/checksums: is missing; the package is of another version or damaged
  [2]

Behind the checksums every value is looked at:

  $ sums() { (cd package; find . -type f ! -name checksums -printf '%P\n' | LC_ALL=C sort | /usr/bin/python3 -c '
  > import sys, zlib
  > for name in sys.stdin.read().split():
  >   data = open(name, "rb").read(); print(f"{zlib.crc32(data):08x} {len(data)} {name}")' > checksums); }
  $ damage() { rm -rf package; cp -r right package; sed -i "$@"; sums; kodama sim package; }
  $ damage 's/"version": [0-9]*/"version": 4/' package/manifest.json
  kodama: error: package/manifest.json: found package version 4, allowed is 13; compile the model again
  [2]
  $ damage 's/"first_stage": 0/"first_stage": 1/' package/manifest.json
  kodama: error: package/manifest.json: segments[0]: found stages 1 to 1, allowed: 0 to 0
  [2]
  $ damage 's/"stages": [0-9],/"stages": 9,/' package/manifest.json
  kodama: error: package/programs/0000_product.vsm: found 1 regions, allowed: those of 9 stages
  [2]
  $ damage 's/"program": "/"program": "..\//' package/manifest.json
  kodama: error: package/manifest.json: segments[0].program: found "../programs/0000_product.vsm", allowed: files of the package, which are in 'checksums'
  [2]
  $ damage 's/"dram_address": 0/"dram_address": -1/' package/manifest.json
  kodama: error: package/manifest.json: stages[0].operands[0].dram_address: found 64 long words at -1, allowed: 16777216 of DRAM in all
  [2]
  $ damage 's/"length_lw": 8/"length_lw": 1e9/' package/manifest.json
  kodama: error: package/manifest.json: stages[0].operands[0].length_lw: found 1000000000.0, allowed: an integer of 63 bits
  [2]
  $ damage 's/"fetch"/"Fetch"/' package/manifest.json
  kodama: error: package/manifest.json: stages[0]: found 'Fetch', allowed: name, kind, operation, onnx_ops, onnx_nodes, inputs, outputs, kernel, description, predicted_cycles, operands, result, dram_cycles, fetch, stored, work
  [2]
  $ damage 1d package/programs/0*.vsm
  kodama: error: package/programs/0000_product.vsm:1: found a statement outside of all regions
  [2]
  $ damage '$d' package/programs/0*.vsm
  kodama: error: package/programs/0000_product.vsm: the last region doesn't end
  [2]
  $ rm -rf package; mv right package

Only a package is replaced, and only if nothing else is in its directory:

  $ kodama compile models/linear.onnx --chip tiny -o package
  package: 1 stages, 22 steps, 2 MV transfers, for chip tiny at gfloat precision
  $ touch package/notes.txt; kodama compile models/linear.onnx --chip tiny -o package; ls package
  kodama: error: package: holds 'notes.txt', which is not of the package there; move it, or choose another directory
  checksums
  constants
  images
  manifest.json
  notes.txt
  programs
  $ rm package/notes.txt; ln -s package link; kodama compile models/linear.onnx --chip tiny -o link; readlink link; ls -A
  link: 1 stages, 22 steps, 2 MV transfers, for chip tiny at gfloat precision
  package
  link
  models
  package
  $ touch file; kodama compile models/linear.onnx --chip tiny -o file
  kodama: error: file: exists and is not a directory; choose another name
  [2]
  $ kodama compile models/linear.onnx --chip tiny -o new/package > /dev/null; ls new/package
  checksums
  constants
  images
  manifest.json
  programs

What was compiled is kept in the cache, and the next process finds it there:

  $ kodama compile models/linear.onnx --chip tiny -o first --cache cache
  first: 1 stages, 22 steps, 2 MV transfers, for chip tiny at gfloat precision
  $ touch -d 2000-01-01 cache/programs/*
  $ kodama compile models/linear.onnx --chip tiny -o second --cache cache
  second: 1 stages, 22 steps, 2 MV transfers, for chip tiny at gfloat precision
  $ diff -r first second
  $ ls cache/programs | wc -l
  1
  $ find cache/programs -type f -newermt 2001-01-01 | wc -l
  1

Another option is another program; where a pass must run to be seen, nothing is looked for:

  $ kodama compile models/linear.onnx --chip tiny -o third --precision float --cache cache
  third: 1 stages, 24 steps, 2 MV transfers, for chip tiny at float precision
  $ ls cache/programs | wc -l
  2
  $ touch -d 2000-01-01 cache/programs/*
  $ kodama compile models/linear.onnx --chip tiny -o fourth --cache cache --dump-after plan
  wrote kodama-dump/000.plan.linear.json
  fourth: 1 stages, 22 steps, 2 MV transfers, for chip tiny at gfloat precision
  $ ls kodama-dump | wc -l
  1
  $ find cache/programs -type f -newermt 2001-01-01 | wc -l
  0
