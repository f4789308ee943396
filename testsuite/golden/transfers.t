Two tasks of 100 cycles, each with data that takes 80 cycles to load. There is room for both at a time:

  $ cat > two.json <<'END'
  > {"name": "two tasks", "capacity": 128, "ports": ["DRAM"], "task_cycles": [100, 100],
  >  "buffers": [{"name": "a", "size": 64, "first_task": 0, "last_task": 0},
  >              {"name": "b", "size": 64, "first_task": 1, "last_task": 1}],
  >  "transfers": [{"text": "load a", "buffer": 0, "load": true, "earliest": 0, "latest": 0,
  >                 "uses": [{"port": 0, "cycles": 80}]},
  >                {"text": "load b", "buffer": 1, "load": true, "earliest": 0, "latest": 1,
  >                 "uses": [{"port": 0, "cycles": 80}]}]}
  > END
  $ kodama schedule two.json -o solved.json
  two tasks: 2 tasks, 2 transfers, 2 buffers, 0 of which may stay
  bound: 280 cycles (tasks 280, ports 280)
  keep: 280 cycles estimated, 1 loads ahead, 0 dropped
  wrote solved.json
  $ kodama schedule two.json --scheduler on-demand
  two tasks: 2 tasks, 2 transfers, 2 buffers, 0 of which may stay
  bound: 280 cycles (tasks 280, ports 280)
  on-demand: 360 cycles estimated, 0 loads ahead, 0 dropped

Schedules are checked, whoever made them:

  $ kodama schedule two.json --check solved.json
  two tasks: 2 tasks, 2 transfers, 2 buffers, 0 of which may stay
  bound: 280 cycles (tasks 280, ports 280)
  solved.json: 280 cycles estimated, 1 loads ahead, 0 dropped
  $ sed 's/"address":64/"address":32/' solved.json > wrong.json
  $ kodama schedule two.json --check wrong.json
  two tasks: wrong.json: wrong: buffers 'a' [0, 64) and 'b' [32, 96) overlap at position 0
  [1]

Bad files:

  $ sed 's/"port": 0/"port": 7/' two.json > bad.json
  $ kodama schedule bad.json
  kodama: error: bad.json: 'port' of a transfer: found 7, allowed: 0 to 0
  [2]
  $ kodama schedule two.json --scheduler best
  kodama: error: found transfer scheduler 'best', allowed: keep, prefetch, on-demand
  [2]
