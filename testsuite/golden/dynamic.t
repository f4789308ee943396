Models whose shapes or ways only the data know are compiled in parts while they run.

  $ cp -r "$TESTDIR/models" .
  $ run() { kodama run "$@" --chip tiny | sed -e 's/wall time.*/wall time/' -e 's/ in [0-9.]* s,/ in some time,/'; }

A dimension that the given input binds; a second run compiles nothing:

  $ run models/symbolic.onnx --input x=models/x.npy --repeat 2
  compiled in parts while it runs: input 'x' is float32 [batch, 8]
  region  operators     where  runs  compiles  from disk  hits  chip cycles  link cycles  host cycles  link bytes
  ---------------------------------------------------------------------------------------------------------------
  main 1  MatMul, Relu  chip      1         0          0     1          264         2352            0      1024 B
  ---------------------------------------------------------------------------------------------------------------
  total                           1         0          0     1          264         2352            0      1024 B
  all regions: 2616 cycles
  programs: 0 compiled and 0 read from disk in some time, 1 runs of such that were in memory; 1 are kept, 0 were dropped
  of 2 runs, the last: the first compiled 1 programs, this one 0
  y float32 [2, 4]: 1.00187 0.995693 0 0.710895 0 0 0 1.26663
  outputs of all 2 runs: the same bits
  y against the CPU reference: max abs 4.99e-05, over largest magnitude 3.94e-05 (allowed 1e-03): ok
  wall time

Another process that meets the same shapes compiles nothing:

  $ for time in first second; do KODAMA_CACHE=kept run models/symbolic.onnx --input x=models/x.npy | grep -e '^programs' -e 'main 1' -e region; done
  region  operators     where  runs  compiles  from disk  hits  chip cycles  link cycles  host cycles  link bytes
  main 1  MatMul, Relu  chip      1         1          0     0          264         2352            0      1024 B
  all regions: 2616 cycles, and 955 once, for 512 B of constants
  programs: 1 compiled and 0 read from disk in some time, 0 runs of such that were in memory; 1 are kept, 0 were dropped
  region  operators     where  runs  compiles  from disk  hits  chip cycles  link cycles  host cycles  link bytes
  main 1  MatMul, Relu  chip      1         0          1     0          264         2352            0      1024 B
  all regions: 2616 cycles, and 955 once, for 512 B of constants
  programs: 0 compiled and 1 read from disk in some time, 0 runs of such that were in memory; 1 are kept, 0 were dropped

A dimension is padded to a bucket; one program serves all lengths of it, and results are those of the data alone:

  $ run models/symbolic.onnx --input x=models/x.npy --bucket batch=4,8 | grep -e bucket -e y
  region  operators     where  runs  compiles  from disk  hits  chip cycles  link cycles  host cycles  link bytes
  all regions: 2616 cycles, and 955 once, for 512 B of constants
  programs: 1 compiled and 0 read from disk in some time, 0 runs of such that were in memory; 1 are kept, 0 were dropped
  in a bucket: main 1: batch 2 in 4
  y float32 [2, 4]: 1.00187 0.995693 0 0.710895 0 0 0 1.26663
  y against the CPU reference: max abs 4.99e-05, over largest magnitude 3.94e-05 (allowed 1e-03): ok
  $ run models/symbolic.onnx --input x=models/x.npy --bucket batch=1 | grep bucket
  in no bucket: main 1: 'batch' is 2, more than its largest bucket, 1
  $ run models/positive.onnx --input x=models/x.npy --bucket where:1=16 | grep bucket
  in a bucket: main 2: where:1 7 in 16
  $ run models/symbolic.onnx --input x=models/x.npy --bucket bach=4,8
  kodama: error: --bucket bach: the model has no such dimension; allowed are batch, and VALUE:AXIS, with the name of a value in its graph, such as one whose shape depends on data (kodama inspect names them)
  $ run models/symbolic.onnx --input x=models/x.npy --bucket batch=8,4
  kodama: error: --bucket batch=8,4: allowed is DIM=N,N,N with extents from 1 to 2^31, each larger than the one before

A shape that depends on data:

  $ run models/positive.onnx --input x=models/x.npy --json run.json
  wrote run.json
  compiled in parts while it runs: input 'x' is float32 [batch, 8]
  region       operators                  where  runs  compiles  from disk  hits  chip cycles  link cycles  host cycles  link bytes
  ---------------------------------------------------------------------------------------------------------------------------------
  main 1       Relu                       chip      1         1          0     0          208         2416            0      2048 B
  main 'find'  NonZero                    host      1         0          0     0            0            0           14         0 B
  main 2       Transpose, GatherND, Sqrt  chip      1         1          0     0         2368         2450            0      4096 B
  ---------------------------------------------------------------------------------------------------------------------------------
  total                                             3         2          0     0         2576         4866           14      6144 B
  all regions: 7456 cycles, and 1614 once, for 24.6 kB of constants
  programs: 2 compiled and 0 read from disk in some time, 0 runs of such that were in memory; 2 are kept, 0 were dropped
  on the host:
    its shape depends on data: main 'find' (NonZero)
  y float32 [7]: 1.42926 0.804178 0.814287 0.409225 0.330173 0.309003 0.188643
  y against the CPU reference: max abs 0.00e+00, over largest magnitude 0.00e+00 (allowed 1e-03): ok
  wall time
  $ /usr/bin/python3 -c 'import json; run = json.load(open("run.json")); print([(r["where"], r["runs"], r["compiles"]) for r in run["regions"]], run["total"]["compiles"], [c["ok"] for c in run["comparisons"]])'
  [('chip', 1, 1), ('host', 1, 0), ('chip', 1, 1)] 2 [True]

A loop, whose body is compiled once:

  $ run models/loop.onnx --input x=models/x.npy --input m=models/three.npy
  compiled in parts while it runs: node 'steps' (Loop) is control flow
  region             operators               where  runs  compiles  from disk  hits  chip cycles  link cycles  host cycles  link bytes
  ------------------------------------------------------------------------------------------------------------------------------------
  main 'steps'       Loop                    host      1         0          0     0            0          883            0      1024 B
  body of 'steps' 1  Identity, MatMul, Tanh  chip      3         1          0     2         2600         3085            0       512 B
  ------------------------------------------------------------------------------------------------------------------------------------
  total                                                4         1          0     2         2600         3968            0      1536 B
  all regions: 6568 cycles, and 1074 once, for 4096 B of constants
  programs: 1 compiled and 0 read from disk in some time, 2 runs of such that were in memory; 1 are kept, 0 were dropped
  on the host:
    control flow: main 'steps' (Loop)
  y float32 [2, 8]: -0.994552 1 0.494595 -0.993991 0.999407 0.845136 0.998139 -0.380363 -0.999234 0.999998 ...
  y against the CPU reference: max abs 4.90e-05, over largest magnitude 4.90e-05 (allowed 1e-03): ok
  wall time

Sequences are the host's; outputs go to files as those of other models:

  $ run models/sequence.onnx --input x=models/x.npy --input i=models/one.npy --output-dir out
  wrote out/y.pb (output 'y')
  compiled in parts while it runs: node 'split' (SplitToSequence) makes a sequence
  region        operators        where  runs  compiles  from disk  hits  chip cycles  link cycles  host cycles  link bytes
  ------------------------------------------------------------------------------------------------------------------------
  main 'split'  SplitToSequence  host      1         0          0     0            0            0           10         0 B
  main 'pick'   SequenceAt       host      1         0          0     0            0            0            0         0 B
  main 1        Exp              chip      1         1          0     0          340         2416            0      2048 B
  ------------------------------------------------------------------------------------------------------------------------
  total                                    3         1          0     0          340         2416           10      2048 B
  all regions: 2766 cycles
  programs: 1 compiled and 0 read from disk in some time, 0 runs of such that were in memory; 1 are kept, 0 were dropped
  on the host:
    sequences and optionals are the host's: main 'split' (SplitToSequence), main 'pick' (SequenceAt)
  y float32 [8]: 0.293068 0.504985 0.93049 0.388776 0.906404 1.10019 1.03623 0.602727
  y against the CPU reference: max abs 5.96e-08, over largest magnitude 5.42e-08 (allowed 1e-03): ok
  wall time
  $ ls out
  y.npy
  y.pb

Values that don't fit what the model does with them:

  $ kodama run models/reshape.onnx --chip tiny --input x=models/x.npy --input s=models/list.npy
  kodama: error: node 'fold' (Reshape): input data 'x' (float32 [2, 8]) has 16 elements; they can't be reshaped to [5, 2]
  [2]
  $ kodama run models/loop.onnx --chip tiny --input x=models/x.npy --input m=models/list.npy
  kodama: error: input 'm' has shape [2]; the model wants []
  [2]
  $ kodama run models/sequence.onnx --chip tiny --input x=models/x.npy --input i=models/three.npy
  kodama: error: node 'pick' (SequenceAt): position 3 in a sequence of 2 tensors; allowed is -2 to 1
  [2]
  $ kodama run models/symbolic.onnx --chip tiny --input x=models/x_double.npy
  kodama: error: input 'x' is float64; the model wants float32
  [2]
  $ kodama run models/symbolic.onnx --chip tiny --dim batch=3 --input x=models/x.npy
  kodama: error: input 'x' of model 'symbolic': found shape [2, 8], allowed is [3, 8]
  [2]

Statistics, traces and comparisons of layers have every region that ran:

  $ run models/positive.onnx --input x=models/x.npy --stats --check-layers --trace trace.json --vcd trace.vcd 2>wrote | grep -e '^layers' -e '^  main [12] '
  layers of main 1: 2 compared with the CPU reference, the worst is 'r': max abs 0.00e+00, over largest magnitude 0.00e+00
  layers of main 2: 4 compared with the CPU reference, the worst is 'found': max abs 0.00e+00, over largest magnitude 0.00e+00
    main 1                                15          2624  34.7 %   0.0 %  148 waiting for transfers, 883 data from the host, 783 data to the host, 750 launches by the host
    main 2                               458          4930  65.3 %   2.1 %  648 waiting for transfers, 851 data from the host, 849 data to the host, 750 launches by the host
  $ run models/loop.onnx --input x=models/x.npy --input m=models/three.npy --check-layers --stats | grep -e '^layers' -e '^  body of .steps. 1  *[0-9]'
  layers of body of 'steps' 1: 4 compared with the CPU reference, the worst is 'next': max abs 2.39e-05, over largest magnitude 2.39e-05
    body of 'steps' 1                    345          8784  100.0 %   4.6 %  300 waiting for transfers, 2505 data from the host, 2349 data to the host, 2250 launches by the host
  $ grep -o '"name": *"main [12]"' trace.json | sort | uniq -c | tr -s ' '
   1 "name":"main 1"
   1 "name":"main 2"

A size that nothing says, and what needs the whole model ahead:

  $ kodama run models/positive.onnx
  kodama: error: models/positive.onnx: input 'x' is float32 [batch, 8]: give it with --input x=FILE, or the size of a random one, for example: --dim batch=4
  [2]
  $ kodama run models/symbolic.onnx --input x=models/x.npy --slices 2
  kodama: not supported: --slices with a number: not for a model that is compiled in parts while it runs (input 'x' is float32 [batch, 8])
  [3]
  $ kodama compile models/loop.onnx -o out2
  kodama: not supported: models/loop.onnx: node 'steps' (Loop): control flow (operators with graphs inside) can't be compiled ahead; kodama run decides it while the model runs, or export the model with its branches and loops resolved
  [3]
  $ kodama compile models/positive.onnx --dim batch=2 -o out2
  kodama: not supported: models/positive.onnx: node 'find' (NonZero): the shape of its output 'where' (int64 [2, ?]) depends on data: on the elements of input X 'r' (float32 [2, 8]), which aren't constant; Kodama needs every shape before the model runs (--bind fixes an input of the model)
  [3]

Of a model whose way or shapes only the data know, why it is compiled in parts, and what is the host's:

  $ kodama inspect models/loop.onnx | tr -s ' \n' ' ' | grep -o 'it is compiled in parts.*control flow \|On the host.*'
  it is compiled in parts while it runs, since node 'steps' (Loop) is control flow 
  On the host: Loop (steps): control flow: the host decides which graph runs next 
  $ kodama inspect models/positive.onnx | tr -s ' \n' ' ' | grep -o 'it is compiled in parts.*batch, 8\]\|On the host.*'
  it is compiled in parts while it runs, since input 'x' is float32 [batch, 8]
  On the host: NonZero (find): the shapes of its results (where) depend on data 
  $ kodama inspect models/sequence.onnx | grep -A3 'On the host'
  On the host:
    SplitToSequence (split): sequences and optionals are the host's
    SequenceAt (pick): sequences and optionals are the host's
