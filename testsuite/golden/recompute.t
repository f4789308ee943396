Three operations forward, three back. All values are alive at c2; with less, a is made again:

  $ cat > chain.json <<'END'
  > {"name": "chain", "limit": 36,
  >  "values": [{"name": "a", "bytes": 10}, {"name": "b", "bytes": 10}, {"name": "c", "bytes": 10},
  >             {"name": "gc", "bytes": 8}, {"name": "gb", "bytes": 8}, {"name": "ga", "bytes": 8, "kept": true}],
  >  "operations": [{"name": "f0", "cycles": 5, "makes": [0]},
  >                 {"name": "f1", "cycles": 7, "reads": [0], "makes": [1]},
  >                 {"name": "f2", "cycles": 9, "reads": [1], "makes": [2]},
  >                 {"name": "b2", "cycles": 9, "reads": [1, 2], "makes": [3]},
  >                 {"name": "b1", "cycles": 7, "reads": [0, 1, 3], "makes": [4]},
  >                 {"name": "b0", "cycles": 5, "reads": [0, 4], "makes": [5]}]}
  > END
  $ kodama recompute chain.json --recomputer none
  chain: 6 operations, gave up (the order that is given)
  limit  36
  peak   38 (bound 36)
  cycles 42 (bound 42)
  steps  6
  nodes  0
  [1]
  $ kodama recompute chain.json -o out.json
  chain: 6 operations, solved (search; least)
  limit  36
  peak   36 (bound 36)
  cycles 47 (bound 42)
  steps  7
  nodes  13
  wrote out.json
  $ kodama recompute chain.json --check out.json
  out.json: right, peak 36, 47 cycles
  $ kodama recompute chain.json --limit 30
  chain: 6 operations, infeasible (an operation alone, or what is kept, takes 36 bytes)
  limit  30
  peak   38 (bound 36)
  cycles 42 (bound 42)
  steps  6
  nodes  6
  [1]
  $ kodama recompute chain.json --limit 50
  chain: 6 operations, solved (nothing is done again; least)
  limit  50
  peak   38 (bound 36)
  cycles 42 (bound 42)
  steps  6
  nodes  0

Schedules are checked, whoever made them:

  $ sed 's/"steps":\[0,/"steps":[1,/' out.json > wrong.json
  $ kodama recompute chain.json --check wrong.json
  wrong.json: wrong: value 'a' is read before it is made
  [1]
  $ kodama recompute chain.json --check chain.json
  kodama: error: chain.json: the file has no 'schedule'
  [2]

Wrong problems:

  $ sed 's/"reads": \[1\]/"reads": [2]/' chain.json > bad.json
  $ kodama recompute bad.json
  kodama: error: bad.json: operation 'f2': found value 'c' read, allowed: values that operations before it make
  [2]
  $ kodama recompute chain.json --recomputer x
  kodama: error: found recomputer 'x', allowed: optimal, sqrt, order, none
  [2]
  $ kodama recompute chain.json --recomputer sqrt --pass-option nodes=3
  kodama: error: found pass option 'nodes', allowed for the chosen passes: none
  [2]

A training step within a limit; the problem can be had:

  $ M=$TESTDIR/../models/mnist8/model.onnx
  $ kodama train-step $M --loss mse -o step.onnx --memory 80% --recompute-problem problem.json | head -3
  wrote problem.json
  memory limit 35.13 KiB (a chain of 6 stages)
  activations alive at a time: 30.62 KiB, before 43.92 KiB; all results: 359.23 KiB, before 359.23 KiB
  layers: 80, before 79; estimated cycles: 3302, before 3190: 1.035 times
  $ kodama recompute problem.json --recomputer order | head -1 | sed 's/(.*//'
  CNTKGraph: 79 operations, gave up 
  $ kodama train-step $M --loss mse -o step.onnx --memory 1
  kodama: not supported: --memory: activations of the step take 43.92 KiB at a time; 1 B are allowed, and the least that was found by --recompute optimal is 43.91 KiB (an operation alone, or what is kept, takes 31360 bytes); use a smaller batch, or another --recompute
  [3]
  $ kodama train-step $M --loss mse -o step.onnx --memory 120%
  kodama: error: --memory: found '120%', allowed: bytes, with K, M or G behind, or a part as 1% to 100%
  [2]
  $ kodama train-step $M --loss mse -o step.onnx --recompute sqrt
  kodama: error: --recompute: no effect without --memory LIMIT
  [2]
  $ kodama train-step $M --loss mse -o step.onnx --chip tiny
  kodama: error: --chip: no effect without --memory LIMIT
  [2]
