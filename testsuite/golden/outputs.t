Results go where the user says. `-` is standard output; everything else that is printed then goes to standard error:

  $ cp -r "$TESTDIR/models" .
  $ cat > in.vsm <<END
  > fvadd \$lm0v \$lm0v \$ln0v
  > nop/2
  > d get \$lm0n0c0b0m0p0 1
  > END
  $ kodama asm in.vsm
  fvadd $lm0v $lm0v $ln0v
  nop/2
  d get $lm0n0c0b0m0p0 1
  $ kodama asm in.vsm -o - | head -1
  fvadd $lm0v $lm0v $ln0v
  $ kodama sim in.vsm --stats=json --stats-file - -d dump.txt 2> report.txt | /usr/bin/python3 -c 'import json, sys; print(type(json.load(sys.stdin)))'
  <class 'dict'>
  $ cat report.txt
  wrote dump.txt
  3 steps (2 nop), 0 MV transfers, 12 cycles (0 waiting)
  $ kodama run models/linear.onnx --chip tiny --json - 2> report.txt | /usr/bin/python3 -c 'import json, sys; print(type(json.load(sys.stdin)))'
  <class 'dict'>
  $ kodama run models/linear.onnx --chip tiny --json /dev/stdout 2> report.txt > run.json; head -c 10 run.json; grep -c total report.txt
  {
   "model"1

What is no regular file is written to, not replaced; links are followed; names and modes stay:

  $ ln -s /dev/null null; mkfifo fifo; timeout 20 cat fifo > received &
  $ kodama asm in.vsm -o null; kodama asm in.vsm -o fifo; wait; stat -c %F null fifo; stat -Lc %F null; cmp received <(kodama asm in.vsm)
  wrote null
  wrote fifo
  symbolic link
  fifo
  character special file
  $ kodama asm in.vsm -o a.vsm; chmod 640 a.vsm; ln a.vsm hard.vsm; ln -s a.vsm soft.vsm
  wrote a.vsm
  $ for name in a hard soft; do kodama asm in.vsm -o $name.vsm; done; stat -c '%F %a %h' a.vsm hard.vsm soft.vsm
  wrote a.vsm
  wrote hard.vsm
  wrote soft.vsm
  regular file 640 2
  regular file 640 2
  symbolic link 777 1
  $ ln -s later.vsm dangling.vsm; kodama asm in.vsm -o dangling.vsm; stat -c %F dangling.vsm later.vsm
  wrote dangling.vsm
  symbolic link
  regular file

Every path is tried before the work; distinct outputs are distinct files:

  $ kodama run nothing.onnx --json missing/run.json
  kodama: error: missing/run.json: can't be written (No such file or directory)
  [2]
  $ kodama run nothing.onnx --trace models
  kodama: error: models: can't be written (Is a directory)
  [2]
  $ kodama sim nothing.vsm -d in.vsm/dump
  kodama: error: in.vsm/dump: can't be written (Not a directory)
  [2]
  $ kodama run nothing.onnx --json a.vsm --trace soft.vsm
  kodama: error: a.vsm: two outputs would go there; each needs a file of its own
  [2]
  $ kodama run nothing.onnx --json - --trace -
  kodama: error: standard output: two outputs would go there; each needs a file of its own
  [2]
  $ kodama run nothing.onnx --json new --vcd ./new
  kodama: error: new: two outputs would go there; each needs a file of its own
  [2]
  $ kodama run nothing.onnx --output-dir in.vsm/out
  kodama: error: in.vsm/out: can't be written (Not a directory)
  [2]
  $ kodama run nothing.onnx --dump-after all --dump-dir in.vsm
  kodama: error: in.vsm: can't be written (Not a directory)
  [2]
  $ kodama compile nothing.onnx -o in.vsm
  kodama: error: in.vsm: exists and is not a directory; choose another name
  [2]
  $ kodama isa -o in.vsm
  kodama: error: in.vsm: can't be written (Not a directory)
  [2]
  $ kodama onnx-tests --filter nothing --json missing/x.json
  kodama: error: missing/x.json: can't be written (No such file or directory)
  [2]
  $ kodama opt nothing.vsm -o missing/x.vsm
  kodama: error: missing/x.vsm: can't be written (No such file or directory)
  [2]
  $ kodama schedule nothing.json -o missing/x.json
  kodama: error: missing/x.json: can't be written (No such file or directory)
  [2]
  $ kodama pack nothing.json -o missing/x.json
  kodama: error: missing/x.json: can't be written (No such file or directory)
  [2]
  $ kodama layout convert '((4_PE:1))@LM0' '((4_PE:1))@LM1' --shape 4 --emit missing/x.vsm
  kodama: error: missing/x.vsm: can't be written (No such file or directory)
  [2]
  $ ls new
  ls: cannot access 'new': No such file or directory
  [2]

What can't be written is an error:

  $ kodama chips > /dev/full
  kodama: error: standard output: can't be written (No space left on device)
  [2]
  $ kodama --help > /dev/full
  kodama: error: standard output: can't be written (No space left on device)
  [2]
  $ kodama sim in.vsm > /dev/full
  3 steps (2 nop), 0 MV transfers, 12 cycles (0 waiting)
  kodama: error: standard output: can't be written (No space left on device)
  [2]
  $ kodama asm in.vsm > /dev/full
  kodama: error: standard output: can't be written (No space left on device)
  [2]
  $ kodama asm in.vsm -o /dev/full
  kodama: error: /dev/full: can't be written (No space left on device)
  [2]
  $ kodama chips >&-
  kodama: error: standard output: can't be written (Bad file descriptor)
  [2]

Outputs whose names are alike in a file system go to different files:

  $ kodama run models/alike.onnx --chip tiny --output-dir out > /dev/null; ls out
  wrote out/a_b.2.pb (output 'a/b')
  wrote out/a_b.pb (output 'a_b')
  wrote out/longlonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglo.pb (output 'longlonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglong1')
  wrote out/longlonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglo.2.pb (output 'longlonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglong2')
  a_b.2.npy
  a_b.2.pb
  a_b.npy
  a_b.pb
  longlonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglo.2.npy
  longlonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglo.2.pb
  longlonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglo.npy
  longlonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglo.pb
