Two tasks of 100 cycles, each with data that takes 80 cycles to load. There is room for both at a time:

  $ cat > two.json <<'END'
  > {"name": "two tasks", "capacity": 128, "ports": ["DRAM"], "task_cycles": [100, 100],
  >  "buffers": [{"size": 64, "first_task": 0, "last_task": 0}, {"size": 64, "first_task": 1, "last_task": 1}],
  >  "transfers": [{"text": "load a", "buffer": 0, "load": true, "earliest": 0, "latest": 0,
  >                 "uses": [{"port": 0, "cycles": 80}]},
  >                {"text": "load b", "buffer": 1, "load": true, "earliest": 0, "latest": 1,
  >                 "uses": [{"port": 0, "cycles": 80}]}]}
  > END
  $ kodama schedule two.json -o solved.json
  $ kodama schedule two.json --scheduler on-demand

Schedules are checked, whoever made them:

  $ kodama schedule two.json --check solved.json
  $ sed 's/"address":64/"address":32/' solved.json > wrong.json
  $ kodama schedule two.json --check wrong.json

Bad files:

  $ sed 's/"port": 0/"port": 7/' two.json > bad.json
  $ kodama schedule bad.json
  $ kodama schedule two.json --scheduler best
