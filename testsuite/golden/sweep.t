Keys of the chip file and options of the compiler, all combinations.

  $ cp -r "$TESTDIR/models" .
  $ kodama sweep models/linear.onnx --chip tiny --set memory.l2bm_lw=16384,32768 --set planner=greedy,first --csv rows.csv --jobs 2

  $ cut -d, -f1-3 rows.csv

A value that can't be has its reason; nothing else stops for it.

  $ kodama sweep models/linear.onnx --chip tiny --set counts.groups=2,3

  $ kodama sweep models/linear.onnx --chip tiny --set precision=quarter

Wrong ones are named before anything runs.

  $ for set in memory.l3_lw=1 planner planner= =1 planner=,greedy list-tries=x; do kodama sweep models/linear.onnx --chip tiny --set $set; done
  $ kodama sweep models/linear.onnx --chip tiny --set planner=first --set planner=greedy
  $ kodama sweep models/loop.onnx --chip tiny --set planner=first
