Three buffers, two of which may share their place:

  $ cat > three.12.csv <<'EOF'
  > id,lower,upper,size
  > a,0,4,8
  > b,2,6,4
  > c,4,8,8
  > EOF
  $ kodama pack three.12.csv -o out.csv
  three.12: 3 buffers, solved (first fit by size)
  capacity    12
  height      12
  lower bound 12
  nodes       3
  wrote out.csv
  $ cat out.csv
  id,lower,upper,size,offset
  a,0,4,8,0
  b,2,6,4,8
  c,4,8,8,0
  $ kodama pack three.12.csv --check out.csv
  out.csv: right, height 12

Answers are checked, whoever made them:

  $ sed 's/c,4,8,8,.*/c,4,8,8,2/' out.csv > wrong.csv
  $ kodama pack three.12.csv --check wrong.csv
  wrong.csv: wrong: buffers 'b' [8, 12) and 'c' [2, 10) overlap at moment 4
  [1]
  $ grep -v ^b out.csv > short.csv
  $ kodama pack three.12.csv --check short.csv
  kodama: error: short.csv: found no buffer 'b', which three.12 has
  [2]
  $ kodama pack three.12.csv -o out.json > /dev/null
  wrote out.json
  $ kodama pack three.12.csv --check out.json
  out.json: right, height 12
  $ kodama pack three.12.csv --check three.12.csv
  kodama: error: three.12: buffer 'a': found no offset, allowed: one for every buffer
  [2]

Without a file the offsets are printed:

  $ kodama pack three.12.csv
  three.12: 3 buffers, solved (first fit by size)
  capacity    12
  height      12
  lower bound 12
  nodes       3
  offset      buffer
  0           a, 8 from moment 0 to 4
  0           c, 8 from moment 4 to 8
  8           b, 4 from moment 2 to 6
  $ kodama pack three.12.csv --quiet -o quiet.csv
