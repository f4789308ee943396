A small network on the small chip: inputs from files, a table, JSON, dumps.

  $ cp -r "$TESTDIR/models" .
  $ kodama run models/linear.onnx --chip tiny --input x=models/x.npy --json run.json --output-dir out | sed 's/wall time.*/wall time/'
  wrote out/y.pb (output 'y')
  wrote run.json
  #  layer    operators    kind      output  where  steps  cycles  step cycles  wait  of peak  times bound  link cycles  host relayouts  max abs  max rel
  -------------------------------------------------------------------------------------------------------------------------------------------------------
  0  product  MatMul+Relu  Contract  [2, 4]  chip      22     264           88   176    0.0 %  8448.0x MAU         1602               -  5.0e-05  3.9e-05
  -------------------------------------------------------------------------------------------------------------------------------------------------------
     total                                             22     264           88   176    0.0 %  750.9x DRAM         1602               -
  the problem's bound: 1 cycles (products 1, vector operations 1, DRAM 1 for weights that don't stay in the PEs, inputs and outputs)
  chip tiny, gfloat precision: 22 steps, 264 chip cycles of which 176 wait for transfers, 1602 host link cycles
  a run, constants on the chip:   2616 cycles, 0.003 ms at 750 MHz, 1024 B of DRAM traffic
  the first, sending constants:   3571 cycles, 0.005 ms at 750 MHz, 1536 B of DRAM traffic (512 B, 835 link cycles; 120 chip cycles to bring weights to the PEs)
  of that the host:               2352 cycles: data to the chip 835, from it 767, launches 750, its layers 0
  its data occupy the DRAMs for   15 cycles of 2 interfaces
  planner pbqp: 0 relayouts on the chip take 0 of 264 chip cycles (0 %), 0 layout changes by the host
  y float32 [2, 4]: 1.00187 0.995693 0 0.710895 0 0 0 1.26663
  y against the CPU reference: max abs 4.99e-05, over largest magnitude 3.94e-05 (allowed 1e-03): ok
  wall time
  $ /usr/bin/python3 -c 'import json; run = json.load(open("run.json")); print(run["total"]["total_cycles"], run["constant_link_cycles"], run["total_with_constants"], *run["wall_seconds"])'
  2616 835 3571 import compile inputs load chip run reference report
  $ ls out
  y.npy
  y.pb
  $ grep -c '"kind"' run.json
  1
  $ kodama run models/linear.onnx --chip tiny --input x=models/two.npz:a > /dev/null
  $ kodama run models/symbolic.onnx --chip tiny --dim batch=5 | grep Contract | wc -l
  1

What never leaves the chip has no errors in the table, unless every layer is to be compared:

  $ cp "$TESTDIR/../models/mnist8/model.onnx" mnist8.onnx
  $ kodama run mnist8.onnx | grep '^without errors' | sed 's/[0-9]* layers/some layers/'
  without errors: some layers whose results never leave the chip; --check-layers compares them
  $ kodama run mnist8.onnx --check-layers > checked.txt
  $ grep -c '^without errors' checked.txt
  0
  [1]
  $ grep -E ' (Contract|Reduce) ' checked.txt | grep -c -- '- *$'
  0
  [1]
  $ rm mnist8.onnx checked.txt

The compiled package computes the same bits:

  $ kodama compile models/linear.onnx --chip tiny -o package
  package: 1 stages, 22 steps, 2 MV transfers, for chip tiny at gfloat precision
  $ kodama sim package --input x=models/x.npy --output-dir again > /dev/null
  wrote again/y.pb (output 'y')
  $ cmp out/y.pb again/y.pb

Compiling again replaces the package:

  $ kodama compile models/linear.onnx --chip tiny --precision float -o package > /dev/null
  $ ls -A | sort
  again
  models
  out
  package
  run.json

What the chip can't do runs on the host, with the reason:

  $ kodama run models/host.onnx --chip tiny --input i=models/i.npy | grep -A3 'computed on the host'
  computed on the host by the CPU reference:
    Cast 'to text': no conversion from int64 to string on the chip
    Cast 'from text': no conversion from string to float32 on the chip
  y float32 [3]: 1 4 9

It takes the time that the chip file's rates of the host say, and the totals say so:

  $ kodama run models/host.onnx --chip tiny --input i=models/i.npy | grep -A5 '^a run' | sed 's/took [0-9.]* s/took S s/'
  a run, constants on the chip:   2627 cycles, 0.004 ms at 750 MHz, 2048 B of DRAM traffic
  the first, sending constants:   2627 cycles, 0.004 ms at 750 MHz, 2048 B of DRAM traffic (0 B, 0 link cycles)
  of that the host:               2419 cycles: data to the chip 883, from it 783, launches 750, its layers 3
  its data occupy the DRAMs for   30 cycles of 2 interfaces
  its 2 layers: 36 B read and written at 1e+10 per second, 12 operations at 1e+10 per second, as the chip file assumes; they took S s of this machine
  planner pbqp: 0 relayouts on the chip take 0 of 208 chip cycles (0 %), 0 layout changes by the host
  $ kodama run models/moves.onnx --chip tiny --planner host --no-compare | grep '^its .* layers:' | sed 's/took [0-9.]* s/took S s/'
  its 2 layers: 1056 B read and written at 1e+10 per second, 120 operations at 1e+10 per second, as the chip file assumes; they took S s of this machine

Where the time went, part by part; the parts add up to the whole:

  $ kodama run models/linear.onnx --chip tiny | grep 'wall time' | sed 's/[0-9.]* s/S s/g'
  wall time: import S s, compile S s, inputs S s, load chip S s, run S s, reference S s, report S s, in all S s
  $ kodama run models/linear.onnx --chip tiny | grep 'wall time' | tr ',;' '\n\n' | sed 's/in all/-/' | awk '{ if ($(NF-2) == "-") all = $(NF-1); else sum += $(NF-1) } END { print (sum - all < 0.001 && all - sum < 0.001) ? "they do" : sum " is not " all }'
  they do

Weights with NaN and infinity are computed as the chip would:

  $ kodama run models/nan_weights.onnx --chip tiny --input x=models/ones22.npy --no-compare | grep '^y'
  y float32 [2, 2]: 1 inf inf 2

Where the search for the shortest schedule gave up, it is said, with what is known:

  $ kodama run models/moves.onnx --chip tiny --no-compare --scheduler exact --pass-option exact-nodes=1 --json run.json | grep schedules
  wrote run.json
  schedules of 7 blocks: 5 proven, none is shorter; of 2 the search gave up: they have 46 steps, and at least 40 are needed
  $ /usr/bin/python3 -c 'import json; [print(s["name"], s["schedules"]) for s in json.load(open("run.json"))["stages"] if "schedules" in s]'
  conv {'blocks': 1, 'proven': 0, 'gave_up': 1, 'gave_up_steps': 27, 'gave_up_bound': 22}
  pool {'blocks': 5, 'proven': 5, 'gave_up': 0, 'gave_up_steps': 0, 'gave_up_bound': 0}
  product {'blocks': 1, 'proven': 0, 'gave_up': 1, 'gave_up_steps': 19, 'gave_up_bound': 18}
  $ kodama compile models/moves.onnx --chip tiny --scheduler exact --pass-option exact-nodes=1 -o given_up | grep schedules
  schedules of 7 blocks: 5 proven, none is shorter; of 2 the search gave up: they have 46 steps, and at least 40 are needed
  $ kodama run models/moves.onnx --chip tiny --no-compare --scheduler exact | grep schedules
  [1]

Dumps are files:

  $ kodama run models/linear.onnx --chip tiny --dump-after tile --dump-after lower > /dev/null; ls kodama-dump | sed 's/^[0-9]*//'
  wrote kodama-dump/000.lower.linear.json
  wrote kodama-dump/001.tile.preparation.txt
  wrote kodama-dump/002.tile.product.txt
  .lower.linear.json
  .tile.preparation.txt
  .tile.product.txt

The plan says which images of tensors there are, and which stages make and read them:

  $ kodama plan models/moves.onnx --chip tiny --dump-after plan --dump-dir planned > /dev/null; /usr/bin/python3 -c 'import json; plan = json.load(open("planned/000.plan.moves.json")); [print(i["id"], i["kind"], i["tensor"], i["layout"]) for i in plan["images"]]; [print(s["kind"], s["layer"], s["operands"], "->", s["result"], s.get("rearrange_layers", "")) for s in plan["stages"]]'
  wrote planned/000.plan.moves.json
  0 constant k ((1:16), (1:16, 4:1), (1:16, 1:16, 3:4, 4_PE:1, 2_W:1)) x [2_L2B:1, 2_L1B:1, 2_L2B:2, 4_MAB:1]@LM1
  1 sent x ((1:24), (2_L2B:2, 4_MAB:1, 1:24, 1:24, 1:24, 8:1), (1:24, 3:8, 4_PE:1, 2_W:1)) x [2_L2B:1, 2_L1B:1]@LM0
  2 made c ((1:4), (2_L2B:2, 4_MAB:1, 1:4, 1:4, 4_PE:1, 2_W:1), (1:4, 4:1)) x [2_L2B:1, 2_L1B:1]@GRF0 pad undefined
  3 relaid c ((2_L2B:2, 4_PE:1, 1:16, 4:1, 2_W:1), (4:4))@LM0 pad undefined
  4 made p ((2_L2B:2, 4_PE:1, 4:1, 2_W:1))@LM0 pad undefined
  5 relaid twice ((1:16), (2_L2B:2, 1:16, 1:16, 1:8, 8:1), (1:16, 1:8, 4_PE:1, 2_W:1)) x [2_L2B:1, 2_L1B:1, 4_MAB:1]@LM0
  6 constant t ((1:16), (1:16, 4:1), (1:16, 1:16, 1:4, 4_PE:1, 2_W:1)) x [2_L2B:1, 2_L1B:1, 4_MAB:1, 2_L2B:2]@LM1
  7 made y ((1:16), (2_L2B:2, 1:16, 1:4, 4_PE:1, 2_W:1), (1:16, 4:1)) x [2_L2B:1, 2_L1B:1, 4_MAB:1]@GRF0 pad undefined
  8 relaid part ((24:1, 2_W:1))@LM0
  kernel conv [0, 1] -> 2 
  relayout pool [2] -> 3 []
  kernel pool [3] -> 4 
  relayout product [4] -> 5 ['twice']
  kernel product [5, 6] -> 7 
  relayout part [4] -> 8 ['twice', 'part']

Between kernels, tensors stay on the chip. Relayouts change their layouts there; the host sends and fetches:

  $ kodama run models/moves.onnx --chip tiny --moves --no-compare | grep -v 'wall time'
  #  layer      operators     kind      output        where  steps  cycles  step cycles  wait  of peak    times bound  link cycles  host relayouts  max abs  max rel
  ------------------------------------------------------------------------------------------------------------------------------------------------------------------
  0  conv       Conv          Contract  [1, 4, 6, 6]  chip      26     194          104    90    0.7 %     153.3x MAU         1057               -        -        -
  1  pool.x0                  Relayout  -             chip      41     336          164   172        -              -            0               -        -        -
  2  pool       MaxPool       Reduce    [1, 4, 3, 3]  chip      24     176           96    80        -  417.2x vector            0               -        -        -
  3  product.a  Concat        Relayout  -             chip      31     124          124     0        -              -            0               -        -        -
  4  product    MatMul        Contract  [1, 3, 3, 3]  chip      18     152           72    80    0.1 %    1441.2x MAU          533               -        -        -
  5  part       Concat+Slice  Relayout  [1, 2, 3, 8]  chip      34     377          136   241        -              -          267               -        -        -
  ------------------------------------------------------------------------------------------------------------------------------------------------------------------
     total                                                     174    1359          696   663    0.1 %    631.1x DRAM         1857               -
  the problem's bound: 3 cycles (products 2, vector operations 1, DRAM 3 for weights that don't stay in the PEs, inputs and outputs)
  chip tiny, gfloat precision: 174 steps, 1359 chip cycles of which 663 wait for transfers, 1857 host link cycles
  a run, constants on the chip:   3966 cycles, 0.005 ms at 750 MHz, 17.4 kB of DRAM traffic
  the first, sending constants:   5281 cycles, 0.007 ms at 750 MHz, 18.4 kB of DRAM traffic (10.2 kB, 1175 link cycles; 140 chip cycles to bring weights to the PEs)
  of that the host:               2607 cycles: data to the chip 1057, from it 800, launches 750, its layers 0
  its data occupy the DRAMs for   71 cycles of 2 interfaces
  move       cycles  DRAM  ratio  from                                                                                                      to
  -------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------
  pool.x0       336     7   48.0  ((1:4), (2_L2B:2, 4_MAB:1, 1:4, 1:4, 4_PE:1, 2_W:1), (1:4, 4:1)) x [2_L2B:1, 2_L1B:1]@GRF0 pad undefined  ((2_L2B:2, 4_PE:1, 1:16, 4:1, 2_W:1), (4:4))@LM0 pad undefined
  product.a     124     4   31.0  ((2_L2B:2, 4_PE:1, 4:1, 2_W:1))@LM0 pad undefined                                                         ((1:16), (2_L2B:2, 1:16, 1:16, 1:8, 8:1), (1:16, 1:8, 4_PE:1, 2_W:1)) x [2_L2B:1, 2_L1B:1, 4_MAB:1]@LM0
  part          377     4   94.2  ((2_L2B:2, 4_PE:1, 4:1, 2_W:1))@LM0 pad undefined                                                         ((24:1, 2_W:1))@LM0
  planner pbqp: 3 relayouts on the chip take 837 of 1359 chip cycles (62 %), 0 layout changes by the host
  part float32 [1, 2, 3, 8]: 5.28688 10.2241 3.66886 0.445417 5.28688 10.2241 3.66886 0.445417 6.84871 2.59294 ...
  y float32 [1, 3, 3, 3]: -10.68 8.02538 -4.40544 -9.2224 5.69597 3.00346 -8.00294 3.27275 -0.443362 -12.9553 ...
  $ kodama run models/moves.onnx --chip tiny --planner host --no-compare | grep -E 'relayouts on|^y|^part'
  planner host: 0 relayouts on the chip take 0 of 746 chip cycles (0 %), 5 layout changes by the host
  part float32 [1, 2, 3, 8]: 5.28688 10.2241 3.66886 0.445417 5.28688 10.2241 3.66886 0.445417 6.84871 2.59294 ...
  y float32 [1, 3, 3, 3]: -10.68 8.02538 -4.40544 -9.2224 5.69597 3.00346 -8.00294 3.27275 -0.443362 -12.9553 ...
  $ kodama plan models/moves.onnx --chip tiny
  move          estimated cycles  from                                                                                                      to
  -------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------
  pool.x0                    313  ((1:4), (2_L2B:2, 4_MAB:1, 1:4, 1:4, 4_PE:1, 2_W:1), (1:4, 4:1)) x [2_L2B:1, 2_L1B:1]@GRF0 pad undefined  ((2_L2B:2, 4_PE:1, 1:16, 4:1, 2_W:1), (4:4))@LM0 pad undefined
  product.a                  266  ((2_L2B:2, 4_PE:1, 4:1, 2_W:1))@LM0 pad undefined                                                         ((1:16), (2_L2B:2, 1:16, 1:16, 1:8, 8:1), (1:16, 1:8, 4_PE:1, 2_W:1)) x [2_L2B:1, 2_L1B:1, 4_MAB:1]@LM0
  part.natural               277  ((2_L2B:2, 4_PE:1, 4:1, 2_W:1))@LM0 pad undefined                                                         ((24:1, 2_W:1))@LM0
  planner  relayouts  relayout cycles  kernel cycles  link cycles  total    bound  constant link cycles  with constants
  ---------------------------------------------------------------------------------------------------------------------
  pbqp             3              856           1024         2482   4362  optimal                  1058            5420
  greedy           3              859           1024         2482   4365        -                  1058            5423
  first            4             1156           1024         2313   4493        -                  1211            5704
  host             0                0           1024         4840   5864        -                   781            6645
  $ kodama run models/moves.onnx --chip tiny --planner best
  kodama: error: there is no planner 'best'; allowed are pbqp, greedy, first, host
  [2]
  $ kodama compile models/moves.onnx --chip tiny -o moved
  moved: 6 stages, 174 steps, 21 MV transfers, for chip tiny at gfloat precision
  $ kodama sim moved --moves --json sim.json > sim.txt; grep -E 'relayouts on|^y|^part' sim.txt
  wrote sim.json
  part          377     4   94.2  ((2_L2B:2, 4_PE:1, 4:1, 2_W:1))@LM0 pad undefined                                                         ((24:1, 2_W:1))@LM0
  3 relayouts on the chip take 837 of 1359 chip cycles (62 %), 0 layout changes by the host
  part float32 [1, 2, 3, 8]: 5.28688 10.2241 3.66886 0.445417 5.28688 10.2241 3.66886 0.445417 6.84871 2.59294 ...
  y float32 [1, 3, 3, 3]: -10.68 8.02538 -4.40544 -9.2224 5.69597 3.00346 -8.00294 3.27275 -0.443362 -12.9553 ...

No row and no total is faster than what the problem takes, and no total than what its own traffic takes; a plan counts the constants that a run sends:

  $ kodama run "$TESTDIR/../models/mnist8/model.onnx" --no-compare --json bounds.json --stats json --stats-file traffic.json > /dev/null
  wrote traffic.json
  wrote bounds.json
  $ /usr/bin/python3 -c 'import json; run = json.load(open("bounds.json")); print([s["name"] for s in run["stages"] + [{"name": "total", "stats": run["total"]}] if s["stats"]["cycles"] < s["stats"]["bound_cycles"]], run["total"]["bound_cycles"] > 0, run["total"]["cycles"] >= json.load(open("traffic.json"))["total"]["roofline_cycles"])'
  [] True True
  $ kodama plan models/moves.onnx --chip tiny --json plan.json > /dev/null; kodama run models/moves.onnx --chip tiny --no-compare --json moves.json > /dev/null
  wrote plan.json
  wrote moves.json
  $ /usr/bin/python3 -c 'import json; plan = json.load(open("plan.json"))[0]; run = json.load(open("moves.json")); print(all(plan[key] == run[key] for key in ("constant_bytes", "constant_link_cycles")), plan["total_with_constants"] - plan["total"])'
  False 1058
  $ /usr/bin/python3 -c 'import json; key = "bound_cycles_by_resource"; run, sim = (json.load(open(name)) for name in ("moves.json", "sim.json")); print(all(a["stats"][key] == b["stats"][key] for a, b in zip(run["stages"], sim["stages"])), run["total"][key] == sim["total"][key], {k: round(v, 2) for k, v in run["total"][key].items()})'
  True True {'MAU': 1.37, 'vector': 0.42, 'DRAM': 2.15}

What conversions cost is kept between runs, and can be lost without harm:

  $ KODAMA_CACHE=solved kodama plan models/moves.onnx --chip tiny > plan.txt; test -n "$(ls solved)"
  $ KODAMA_CACHE=solved kodama plan models/moves.onnx --chip tiny > again.txt; cmp plan.txt again.txt
  $ for file in solved/*; do echo nonsense > "$file"; done
  $ kodama plan models/moves.onnx --chip tiny --cache solved > again.txt; cmp plan.txt again.txt
  $ cat solved/* | grep -c nonsense
  0
  [1]
  $ kodama plan models/moves.onnx --chip tiny --cache /proc/nowhere > again.txt; cmp plan.txt again.txt

Constants may stay in the PEs, where a program brings them before the first run. The table is of the last run, which no longer loads them:

  $ kodama run models/linear.onnx --chip tiny --weights resident --repeat 3 --no-compare --json weights.json | grep -v 'wall time'
  wrote weights.json
  #  layer    operators    kind      output  where  steps  cycles  step cycles  wait  fetch  of peak  times bound  link cycles  host relayouts  max abs  max rel
  --------------------------------------------------------------------------------------------------------------------------------------------------------------
  0  product  MatMul+Relu  Contract  [2, 4]  chip      22     256           88   166      2    0.0 %  8192.0x MAU          614               -        -        -
  --------------------------------------------------------------------------------------------------------------------------------------------------------------
     total                                             22     256           88   166      2    0.0 %  728.2x DRAM          614               -
  the problem's bound: 1 cycles (products 1, vector operations 1, DRAM 1 for weights that don't stay in the PEs, inputs and outputs)
  chip tiny, gfloat precision: 22 steps, 256 chip cycles of which 166 wait for transfers, 614 host link cycles
  a run, constants on the chip:   870 cycles, 0.001 ms at 750 MHz, 1024 B of DRAM traffic (run 3 of 3)
  the first, sending constants:   3410 cycles, 0.005 ms at 750 MHz, 1536 B of DRAM traffic (512 B, 835 link cycles; 120 chip cycles to bring weights to the PEs)
  of that the host:               614 cycles: data to the chip 538, from it 76, launches 0, its layers 0
  its data occupy the DRAMs for   22 cycles of 2 interfaces
  planner pbqp: 0 relayouts on the chip take 0 of 256 chip cycles (0 %), 0 layout changes by the host
  y float32 [2, 4]: 2.51689 1.43989 0 3.603 0.408309 0 5.00858 1.80331
  outputs of all 3 runs: the same bits
  $ /usr/bin/python3 -c 'import json; j = json.load(open("weights.json")); print(j["runs"], j["preparation"], j["total_with_constants"], j["total"]["dram_bytes"], j["dram_bytes_with_constants"])'
  3 {'steps': 5, 'mvs': 1, 'cycles': 120, 'dram_bytes': 512.0} 3410 1024.0 1536.0
  $ kodama run models/linear.onnx --chip tiny --weights some
  kodama: error: weights 'some': allowed are stream, resident, auto
  [2]
  $ kodama run models/linear.onnx --chip tiny --repeat 0
  kodama: error: --repeat: found '0', allowed: a whole number from 1 to 1000000
  Run with --help for more information.
  [2]

Indices are data; one that is out of range is the user's error:

  $ kodama run models/gather.onnx --chip tiny --input i=models/i.npy
  kodama: error: node 'look up' (Gather): an index in 'i' is out of range; allowed are -3 to 2
  [2]

Scores that gfloat makes equal are chosen from otherwise than on the reference, which is right for these scores:

  $ kodama run models/choice.onnx --chip tiny --input x=models/choice.npy | grep -E '^(best int|best against|run once|operands)'
  best int64 [1]: 0
  best against the CPU reference: max abs 0.00e+00, over largest magnitude 0.00e+00, 1 elements not comparable (allowed 1e-03): FAILED; at [0]: found 0, expected 1
  run once more with what operators read that choose, compare or round to integers as outputs: 1
  operands against the CPU reference, each on those before it: max abs 9.54e-07, over largest magnitude 9.54e-07 (allowed 1e-03): ok
  best against the CPU reference on the chip's operands: max abs 0.00e+00, over largest magnitude 0.00e+00 (allowed 1e-03): ok
  $ kodama run models/choice.onnx --chip tiny --input x=models/choice.npy --precision float | grep -E '^(best int|best against|run once|operands)'
  best int64 [1]: 1
  best against the CPU reference: max abs 0.00e+00, over largest magnitude 0.00e+00 (allowed 1e-05): ok

But not for others:

  $ kodama run models/choice.onnx --chip tiny --input x=models/choice.npy --tolerance 1e-8 > choice.txt
  [1]
  $ grep -E '^operand' choice.txt
  operand s against the CPU reference: max abs 9.54e-07, over largest magnitude 9.54e-07 (allowed 1e-08): FAILED; at [0, 1]: found 1, expected 1.000001
  operands against the CPU reference, each on those before it: max abs 9.54e-07, over largest magnitude 9.54e-07 (allowed 1e-08): FAILED

On a terminal a table fits: columns that matter least are left out, and named. --wide has them all.

  $ on_terminal() { script -qec "stty cols 80; NO_COLOR=1 kodama run models/linear.onnx --chip tiny --no-compare $*" /dev/null </dev/null | tr -d '\r' | grep -E '^(#|left out)'; }
  $ on_terminal
  #  layer    operators    kind      output  cycles  of peak  times bound  max rel
  left out, for 80 columns: host relayouts, link cycles, step cycles, max abs, steps, where, wait (--wide)
  $ on_terminal --wide
  #  layer    operators    kind      output  where  steps  cycles  step cycles  wait  of peak  times bound  link cycles  host relayouts  max abs  max rel
