The judge: what a right, a wrong and an unreadable answer give.

  $ cat > test.vsm <<'END'
  > # chip=tiny
  > d set $lm0n0c0b0m0p0 2 400000003F8000004080000040A00000
  > # ======= YOUR VSM WILL BE INSERTED HERE =======
  > # ======= Output =======
  > d getf $ln0n0c0b0m0p0 2 # expect=[4.0, 2.0, 8.0, 10.0] / Float @[0],[1],[2],[3]
  > END
  $ echo 'fvadd $lm0v $lm0v $ln0v' > right.vsm
  $ kodama judge test.vsm right.vsm
  ACCEPTED: 4 values
  lines: 1 (1 steps, 0 transfers), 24 bytes
  $ echo 'fvadd $lm0 $lm0 $ln0v ! the first only' > wrong.vsm
  $ kodama judge test.vsm wrong.vsm
  line 5: LM1(n0c0b0m0p0,2) lane 0 [2]: expected 8.0, found 4
  line 5: LM1(n0c0b0m0p0,2) lane 1 [3]: expected 10.0, found 2
  WRONG ANSWER: 2 of 4 values differ
  lines: 1 (1 steps, 0 transfers), 23 bytes
  [1]
  $ echo 'fvadd $lm0 $lm0' > broken.vsm
  $ kodama judge test.vsm broken.vsm
  kodama: error: broken.vsm:1:1: 'fvadd' needs a destination (syntax: <d|f|h>vadd[r] x z dst...)
  [2]
  $ kodama judge test.vsm missing.vsm
  kodama: error: missing.vsm: can't be read: No such file or directory
  [2]
  $ sed 's/Float/Floats/' test.vsm > bad.vsm
  $ kodama judge bad.vsm right.vsm
  kodama: error: bad.vsm:5:58: in 'expect': allowed here is a type: Int, UInt, Long, ULong, Short, UShort, Half, Float or Double
  [2]
  $ kodama judge test.vsm
  kodama: error: judge: allowed are TESTCASE ANSWER, or --dir DIR
  [2]

A tree of problems.

  $ mkdir -p tree/double tree/other
  $ cp test.vsm tree/double; cp right.vsm tree/double/answer.vsm
  $ cp test.vsm tree/other; cp wrong.vsm tree/other/answer.vsm
  $ kodama judge --dir tree | sed 's/[0-9.]* s$/TIME s/; s/ *[0-9]\.[0-9][0-9]$/ TIME/'
  problem  verdict    tests    lines  seconds
  double   passed     1/1          1 TIME
  other    failed     0/1          1 TIME
    tree/other/test.vsm: line 5: LM1(n0c0b0m0p0,2) lane 0 [2]: expected 8.0, found 4
  line 5: LM1(n0c0b0m0p0,2) lane 1 [3]: expected 10.0, found 2
  WRONG ANSWER: 2 of 4 values differ
  lines: 1 (1 steps, 0 transfers), 23 bytes
  2 problems: 1 passed, 1 failed, 0 errors, TIME s
  $ kodama judge --dir empty
  kodama: error: empty: can't be read: No such file or directory
  [2]
