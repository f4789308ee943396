Keys of the chip file and options of the compiler, all combinations.

  $ cp -r "$TESTDIR/models" .
  $ kodama sweep models/linear.onnx --chip tiny --set memory.l2bm_lw=16384,32768 --set planner=greedy,first --csv rows.csv --jobs 2
  memory.l2bm_lw  planner  cycles  chip cycles     ms  bound  of peak  cycles of the most
  ---------------------------------------------------------------------------------------------------
  16384           greedy     2616          264  0.003      1    0.0 %  ##############################
  16384           first      2616          264  0.003      1    0.0 %  ##############################
  32768           greedy     2616          264  0.003      1    0.0 %  ##############################
  32768           first      2616          264  0.003      1    0.0 %  ##############################
  fewest cycles: 2616, with memory.l2bm_lw=16384, planner=greedy
  wrote rows.csv

  $ cut -d, -f1-3 rows.csv
  memory.l2bm_lw,planner,cycles
  16384,greedy,2616
  16384,first,2616
  32768,greedy,2616
  32768,first,2616

A value that can't be has its reason; nothing else stops for it.

  $ kodama sweep models/linear.onnx --chip tiny --set counts.groups=2,3 | sed 's|/[^ ]*/tiny|tiny|; s/---*/--/'
  counts.groups  cycles  chip cycles     ms  bound  of peak  cycles of the most
  --
  2                2616          264  0.003      1    0.0 %  ##############################
  3                   -            -      -      -        -  tiny.yaml,counts.groups=3: 'counts.groups' is 3; allowed: a power of two from 1 to 16, in groups
  fewest cycles: 2616, with counts.groups=2

  $ kodama sweep models/linear.onnx --chip tiny --set precision=quarter
  kodama: error: precision 'quarter' is unknown, allowed: gfloat, float, half
  [2]

Wrong ones are named before anything runs.

  $ for set in memory.l3_lw=1 planner planner= =1 planner=,greedy list-tries=x; do kodama sweep models/linear.onnx --chip tiny --set $set; done
  kodama: error: --set memory.l3_lw: no key of a chip file; allowed: SECTION.KEY as in configs/*.yaml, and options of the compiler
  kodama: error: --set planner: allowed is KEY=VALUE,VALUE,..., for example --set memory.l2bm_lw=16384,32768
  kodama: error: --set planner=: allowed is KEY=VALUE,VALUE,..., for example --set memory.l2bm_lw=16384,32768
  kodama: error: --set =1: allowed is KEY=VALUE,VALUE,..., for example --set memory.l2bm_lw=16384,32768
  kodama: error: --set planner=,greedy: allowed is KEY=VALUE,VALUE,..., for example --set memory.l2bm_lw=16384,32768
  list-tries  cycles  chip cycles  ms  bound  of peak  cycles of the most
  -----------------------------------------------------------------------------------------------------------------
  x                -            -   -      -        -  option list-tries: found 'x', allowed: a whole number from 1
  [3]
  $ kodama sweep models/linear.onnx --chip tiny --set planner=first --set planner=greedy
  kodama: error: --set planner: given twice; allowed: once, with all values
  [2]
  $ kodama sweep models/loop.onnx --chip tiny --set planner=first
  kodama: not supported: models/loop.onnx: node 'steps' (Loop): control flow (operators with graphs inside) can't be compiled ahead; kodama run decides it while the model runs, or export the model with its branches and loops resolved
  [3]

A plot, by gnuplot.

  $ kodama sweep models/linear.onnx --chip tiny --set memory.l2bm_lw=16384,32768 --set planner=greedy,first --plot plot.svg | tail -1
  wrote plot.svg
  fewest cycles: 2616, with memory.l2bm_lw=16384, planner=greedy
  $ /usr/bin/python3 -c 'import xml.dom.minidom; svg = xml.dom.minidom.parse("plot.svg"); print([node.firstChild.data.strip() for node in svg.getElementsByTagName("text") if node.firstChild and not node.firstChild.data.strip().isdigit()])'
  ['cycles', 'memory.l2bm_lw', 'planner=greedy', 'planner=first', 'models/linear.onnx']
  $ kodama sweep models/linear.onnx --chip tiny --set counts.groups=2,3 --plot - 2> /dev/null | grep -c "</svg>"
  1
  $ mkdir bin; ln -s "$(command -v kodama)" bin; PATH="$PWD/bin" kodama sweep models/linear.onnx --chip tiny --set planner=first --plot plot.svg
  kodama: not supported: --plot: gnuplot can't be started; install it (Debian: gnuplot-nox), or use --csv
  [3]
  $ kodama sweep models/linear.onnx --set planner=first --plot missing/plot.svg
  kodama: error: missing/plot.svg: can't be written (No such file or directory)
  [2]
