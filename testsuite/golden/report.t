The report of a run is a page that carries the run's JSON, and says nothing else. What it looks like is tested with a browser (testsuite/report).

  $ kodama run "$TESTDIR/models/moves.onnx" --chip tiny --no-compare --report run.html --json run.json > /dev/null
  wrote run.json
  wrote run.html
  $ cat > data.py <<'END'
  > import json, sys
  > def data(name):
  >     text = open(name).read()
  >     begin = text.index('type="application/json">') + len('type="application/json">')
  >     return json.loads(text[begin:text.index("</script>", begin)])
  > END
  $ /usr/bin/python3 -c 'from data import *; print(data("run.html")["files"][0]["runs"] == [json.load(open("run.json"))])'
  True

It has what goes from stage to stage, where, and in which layout:

  $ /usr/bin/python3 -c 'import json; run = json.load(open("run.json")); name = lambda k: "host" if k is None else run["stages"][k]["name"]; [print(name(m["from"]), "->", name(m["to"]), m["tensor"], m["way"]) for m in run["moves"] if not m["constant"]]; print({run["layouts"][m["layout"]]["memory"] for m in run["moves"]} <= {"LM0", "LM1", "GRF0", "GRF1"})'
  host -> conv x host link
  conv -> pool.x0 c DRAM
  pool.x0 -> pool c stays on the chip
  pool -> product.a p stays on the chip
  product.a -> product twice stays on the chip
  pool -> part p stays on the chip
  product -> host y host link
  part -> host part host link
  True

Its timeline is as long as the run, its layers follow one another, and no memory has more than there is room for:

  $ cat > sums.py <<'END'
  > import json
  > run = json.load(open("run.json"))
  > time, memory = run["timeline"], run["memory"]
  > print(time["cycles"] == memory["cycles"] == run["total"]["total_cycles"], not time["truncated"], not memory["truncated"])
  > print([band[0] for band in time["layers"]] == list(range(len(run["stages"]))), all(a[2] == b[1] for a, b in zip(time["layers"], time["layers"][1:])))
  > for track in time["tracks"]:
  >     assert sum(count * busy for _, count, busy, _ in track["runs"]) == track["busy_cycles"], track["name"]
  > causes = run["total"]["cycles_by_cause"]
  > print(time["tracks"][0]["busy_cycles"] == sum(cycles for cause, cycles in causes.items() if cause not in ("steps", "host_compute")))
  > print([(level["level"], 0 < level["peak_lw"] <= level["capacity_lw"]) for level in memory["levels"]])
  > print(sum(transfer["count"] for stage in run["stages"] for transfer in stage["transfers"]) == run["total"]["mvs"])
  > END
  $ /usr/bin/python3 sums.py
  True True True
  True True
  True
  [('LM', True), ('GRF', True), ('L1BM', True), ('L2BM', True), ('DRAM', True)]
  True

From the file the page is the same; of two files it has what differs:

  $ kodama report run.json -o again.html
  wrote again.html
  $ kodama run "$TESTDIR/models/moves.onnx" --chip tiny --no-compare --transfers on-demand --json other.json > /dev/null
  wrote other.json
  $ kodama report run.json other.json -o two.html
  wrote two.html
  $ /usr/bin/python3 -c 'from data import *; a, b = data("run.html")["files"][0], data("again.html")["files"][0]; print(a["runs"] == b["runs"], a["graphs"] == b["graphs"]); c = data("two.html")["comparison"]; print([(r["name"], r["difference"] == r["b"] - r["a"]) for r in c["layers"]], c["total"]["cycles"]["difference"] > 0)'
  True True
  [('conv', True), ('pool.x0', True), ('pool', True), ('product.a', True), ('product', True), ('part', True)] True

What can't be had is said before the work:

  $ kodama run "$TESTDIR/models/moves.onnx" --chip tiny --report run.html --json run.html
  kodama: error: run.html: two outputs would go there; each needs a file of its own
  [2]
  $ kodama run "$TESTDIR/models/moves.onnx" --chip tiny --report run.html --trace-to 100
  kodama: error: --trace-to: allowed only without --report, which shows the whole run
  [2]
  $ kodama run "$TESTDIR/models/moves.onnx" --chip tiny --report run.html --no-timing
  kodama: error: --no-timing: allowed only without --report, which shows time
  [2]
  $ kodama run "$TESTDIR/models/loop.onnx" --chip tiny --report loop.html > /dev/null
  wrote loop.html
  $ echo '{"model": "m", "chip": 1}' > bad.json; kodama report bad.json -o bad.html
  kodama: error: bad.json: not what `kodama run --json` writes: chip: found 1, allowed: a text
  [2]
  $ echo '{"model": "m"' > bad.json; kodama report bad.json -o bad.html
  kodama: error: bad.json: not JSON: [json.exception.parse_error.101] parse error at line 2, column 1: syntax error while parsing object - unexpected end of input; expected '}'
  [2]
  $ echo '[]' > bad.json; kodama report run.json bad.json -o bad.html
  kodama: error: bad.json: found an empty list, allowed: what `kodama run --json` writes
  [2]
  $ ls bad.html
  ls: cannot access 'bad.html': No such file or directory
  [2]

`kodama schedule --draw` draws what depends on what, and the steps:

  $ cat > block.json <<'END'
  > {"name": "</title><script> \"&", "loop": false, "resources": [{"name": "unit <b>", "capacity": 1}], "classes": [],
  >  "operations": [{"id": 0, "text": "a <i> & \"b\"", "uses": [{"resource": 0}]}, {"id": 1, "text": "c", "uses": [{"resource": 0}]}],
  >  "dependences": [{"from": 0, "to": 1, "distance": 3}], "separations": []}
  > END
  $ kodama schedule block.json --draw block.svg > /dev/null
  wrote block.svg
  $ /usr/bin/python3 -c 'import xml.dom.minidom; svg = xml.dom.minidom.parse("block.svg"); print([node.firstChild.data for node in svg.getElementsByTagName("text")], len(svg.getElementsByTagName("script")))'
  ['Dependences: </title><script> "&', 'a <i> & "b"', '0 in step 0', 'c', '1 in step 3', 'Before, one operation per step: 4 steps', '0', '1', '2', '3', 'unit <b>', '0', '1', 'After: 4 steps', '0', '1', '2', '3', 'unit <b>', '0', '1'] 0
  $ kodama schedule block.json --draw block.dot > /dev/null; cat block.dot
  wrote block.dot
  digraph "</title><script> \"&" {
    node [shape=box]
    0 [label="0: a <i> & \"b\" in step 0"]
    1 [label="1: c in step 3"]
    0 -> 1 [label="3"]
  }
  $ sed 's/"distance": 3/"distance": 100000/' block.json > long.json; kodama schedule long.json --draw long.svg > /dev/null
  kodama: not supported: </title><script> "&: 100001 steps are too many for a picture, which may have 10000; a name that ends in .dot gets the dependences alone
  [3]
