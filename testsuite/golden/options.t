Options: each one works or is an error.

  $ cp "$TESTDIR/../models/mnist8/model.onnx" .
  $ echo 'nop/3' > p.vsm

Numbers out of range, names that are none:

  $ kodama run model.onnx --tolerance -1
  kodama: error: --tolerance: found '-1', allowed: a number from 0 to 1000000000
  Run with --help for more information.
  [2]
  $ kodama run model.onnx --tolerance nan
  kodama: error: --tolerance: found 'nan', allowed: a number from 0 to 1000000000
  Run with --help for more information.
  [2]
  $ kodama sim p.vsm --threads 4000
  kodama: error: --threads: found '4000', allowed: a whole number from 0 to 1024
  Run with --help for more information.
  [2]
  $ kodama sim p.vsm --threads -4
  kodama: error: --threads: found '-4', allowed: a whole number from 0 to 1024
  Run with --help for more information.
  [2]
  $ kodama sim p.vsm --seed 99999999999999999999
  kodama: error: --seed: found '99999999999999999999', allowed: a whole number from 0 to 18446744073709551615
  Run with --help for more information.
  [2]
  $ kodama sim p.vsm --memory clean
  kodama: error: --memory: found 'clean', allowed: zero, dirty
  Run with --help for more information.
  [2]
  $ kodama asm p.vsm --format foo
  kodama: error: --format: found 'foo', allowed: text, words, binary
  Run with --help for more information.
  [2]
  $ kodama sim p.vsm --no-such-option
  kodama: error: The following argument was not expected: --no-such-option
  Run with --help for more information.
  [2]
  $ kodama
  kodama: error: A subcommand is required
  Run with --help for more information.
  [2]
  $ kodama pack x.csv --capacity -1
  kodama: error: --capacity: found '-1', allowed: a whole number from 0 to 9223372036854775807
  Run with --help for more information.
  [2]
  $ kodama run model.onnx --dim x:0=99999999999999999999
  kodama: error: --dim x:0=99999999999999999999: allowed is NAME=N with N at least 1, for example --dim batch=4
  [2]
  $ kodama run model.onnx --dim x:0=3 --dim x:0=4
  kodama: error: --dim x:0=4: 'x:0' is given twice
  [2]
  $ kodama layout bound '((4_PE:1))@LM0' '((4_PE:1))@LM1' --shape 99999999999999999999
  kodama: error: --shape 99999999999999999999: found '99999999999999999999', allowed: positive lengths, as 4,6
  [2]
  $ kodama run model.onnx --pass-option list-tries=99999999999999999999
  kodama: error: option list-tries: found '99999999999999999999', allowed: a whole number from 1
  [2]
  $ kodama run model.onnx --pass-option list-tries=2 --pass-option list-tries=3
  kodama: error: --pass-option list-tries=3: 'list-tries' is given twice
  [2]

A tolerance of 0 asks for the same bits:

  $ kodama run model.onnx --chip tiny --tolerance 0 | grep -o "allowed 0e+00.*"
  allowed 0e+00): FAILED; at [0, 8]: found -3.080728, expected -3.0808315
  allowed 0e+00): FAILED; at [0, 8]: found -3.080728, expected -3.0808315

Options that have no effect in a mode:

  $ kodama compile model.onnx --chip tiny -o package > /dev/null
  $ for option in --step "--break 1" "--watch x" --check-uninitialized "-d f" "--memory dirty"; do
  >   kodama sim package $option; done
  kodama: error: sim --step: no effect on the directory of a compiled model; what has one: --brief, --chip, --hazards, --host, --input, --json, --legend, --moves, --no-timing, --output-dir, --plugin, --seed, --stats, --stats-file, --test-data, --threads, --tolerance, --trace, --trace-from, --trace-limit, --trace-to, --vcd, --wide, program
  kodama: error: sim --break: no effect on the directory of a compiled model; what has one: --brief, --chip, --hazards, --host, --input, --json, --legend, --moves, --no-timing, --output-dir, --plugin, --seed, --stats, --stats-file, --test-data, --threads, --tolerance, --trace, --trace-from, --trace-limit, --trace-to, --vcd, --wide, program
  kodama: error: sim --watch: no effect on the directory of a compiled model; what has one: --brief, --chip, --hazards, --host, --input, --json, --legend, --moves, --no-timing, --output-dir, --plugin, --seed, --stats, --stats-file, --test-data, --threads, --tolerance, --trace, --trace-from, --trace-limit, --trace-to, --vcd, --wide, program
  kodama: error: sim --check-uninitialized: no effect on the directory of a compiled model; what has one: --brief, --chip, --hazards, --host, --input, --json, --legend, --moves, --no-timing, --output-dir, --plugin, --seed, --stats, --stats-file, --test-data, --threads, --tolerance, --trace, --trace-from, --trace-limit, --trace-to, --vcd, --wide, program
  kodama: error: sim --dump: no effect on the directory of a compiled model; what has one: --brief, --chip, --hazards, --host, --input, --json, --legend, --moves, --no-timing, --output-dir, --plugin, --seed, --stats, --stats-file, --test-data, --threads, --tolerance, --trace, --trace-from, --trace-limit, --trace-to, --vcd, --wide, program
  kodama: error: sim --memory: no effect on the directory of a compiled model; what has one: --brief, --chip, --hazards, --host, --input, --json, --legend, --moves, --no-timing, --output-dir, --plugin, --seed, --stats, --stats-file, --test-data, --threads, --tolerance, --trace, --trace-from, --trace-limit, --trace-to, --vcd, --wide, program
  [2]
  $ for option in "--input x=y" "--output-dir d" "--json f" "--seed 2"; do kodama sim p.vsm $option; done
  kodama: error: sim --input: no effect on a program; what has one: --check-uninitialized, --chip, --dump, --hazards, --memory, --no-timing, --plugin, --seed, --stats, --stats-file, --threads, --trace, --trace-from, --trace-limit, --trace-to, --vcd, program
  kodama: error: sim --output-dir: no effect on a program; what has one: --check-uninitialized, --chip, --dump, --hazards, --memory, --no-timing, --plugin, --seed, --stats, --stats-file, --threads, --trace, --trace-from, --trace-limit, --trace-to, --vcd, program
  kodama: error: sim --json: no effect on a program; what has one: --check-uninitialized, --chip, --dump, --hazards, --memory, --no-timing, --plugin, --seed, --stats, --stats-file, --threads, --trace, --trace-from, --trace-limit, --trace-to, --vcd, program
  kodama: error: --seed: no effect on a program without --memory dirty
  [2]
  $ kodama sim p.vsm --step --stats < /dev/null
  kodama: error: sim --stats: no effect in the debugger of a program; what has one: --break, --chip, --memory, --plugin, --seed, --step, --threads, --watch, program
  [2]
  $ kodama sim p.vsm --trace-from 3
  kodama: error: --trace-from: no effect without --trace or --vcd
  [2]
  $ kodama sim p.vsm --memory dirty --seed 3 --no-timing
  3 steps (3 nop), 0 MV transfers
  $ kodama judge p.vsm p.vsm --dir .
  kodama: error: judge testcase: no effect with --dir; what has one: --chip, --dir, --hazards, --max-memory, --max-seconds, --max-steps, --threads
  [2]
  $ kodama opt p.vsm -o q.vsm --seed 3
  kodama: error: opt --seed: no effect without --fuzz; what has one: --allow-rename, --chip, --draw, --effort, --live-out, --objective, --output, --pass-option, --plugin, --scheduler, file
  [2]
  $ kodama opt p.vsm -o q.vsm --plain --effort 3
  kodama: error: opt --effort: no effect with --plain; what has one: --chip, --draw, --output, --plain, file
  [2]
  $ kodama run model.onnx --no-compare --tolerance 1
  kodama: error: --tolerance: no effect with --no-compare
  [2]
  $ kodama run model.onnx --test-data . --seed 3
  kodama: error: --seed: no effect with --test-data, which has the inputs
  [2]
  $ kodama run model.onnx --dump-dir d
  kodama: error: --dump-dir requires --dump-after
  Run with --help for more information.
  [2]
  $ kodama run model.onnx --cache d --no-cache
  kodama: error: --cache excludes --no-cache
  Run with --help for more information.
  [2]
  $ kodama plan model.onnx --scheduler list
  kodama: error: The following arguments were not expected: list --scheduler
  Run with --help for more information.
  [2]
  $ kodama plan model.onnx --dump-after tile 2>&1 | cut -c1-70
  kodama: error: --dump-after tile: this pass does not run here; allowed
  $ kodama run model.onnx --chip tiny --dump-after exact 2>&1 | cut -c1-70
  kodama: error: --dump-after exact: this pass does not run here; allowe
  $ kodama asm p.vsm --allow-inferred
  kodama: error: --allow-inferred: no effect with --format text
  [2]
  $ kodama layout show '((4_PE:1))@LM0' --json --instances 3
  kodama: error: show --instances: no effect with --json; what has one: --chip, --json, --shape, --type, layout
  [2]
  $ kodama bench packing --capacity 5
  kodama: error: packing --capacity: no effect on generated problems; what has one: --count, --packer, --pass-option, --plugin, --seed
  [2]
  $ kodama bench packing x.csv --count 5
  kodama: error: packing --count: no effect on files; what has one: --capacity, --packer, --pass-option, --plugin, files
  [2]

Names and filters that match nothing:

  $ kodama bench schedule --scheduler foo
  kodama: error: found scheduler 'foo', allowed: list, sequential, exact, modulo, acyclic
  [2]
  $ mkdir empty; kodama bench schedule --random 0 --dir empty
  kodama: error: empty: no .json file, and no random problems are asked for
  [2]
  $ kodama bench schedule --random 1 --pass-option no=1
  kodama: error: found pass option 'no', allowed for the chosen passes: exact-nodes, list-priority, list-tries, modulo-budget, modulo-orders, modulo-patience
  [2]
  $ kodama bench kernels --filter foo
  kodama: error: --filter foo: no shape has such a name
  [2]
  $ kodama bench kernels --filter '['
  kodama: error: --filter [: allowed is a regular expression
  [2]
  $ kodama layout bench --kind nope
  kodama: error: found kind 'nope', allowed: DRAM, L1B, L2B, MAB, PE, chip, copies, group, images, matrix, odd, pairs
  [2]
  $ kodama onnx-tests --set real
  kodama: error: --set real: allowed are node, simple, pytorch-operator, pytorch-converted and all; Debian's package has no models of this set
  [2]
  $ kodama onnx-tests --set simple --filter sequence_model1
  chip path (tiny, float): 1 passed, 0 host, 0 limited, 0 failed, 0 skipped of 1
  reference path: 1 passed, 0 host, 0 limited, 0 failed, 0 skipped of 1
  $ kodama onnx-tests --filter nosuchtest 2>&1 | cut -d ';' -f 1
  kodama: error: --filter nosuchtest: no test's name matches
  $ kodama onnx-tests --filter $(printf '(%.0s' $(seq 50000))
  kodama: error: --filter: found an expression of 50000 characters, allowed: up to 1000
  [2]
  $ kodama onnx-fuzz --only-write
  kodama: error: --only-write: allowed only with --write
  [2]
  $ kodama onnx-fuzz --precision nosuch
  kodama: error: precision 'nosuch' is unknown, allowed: gfloat, float, half
  [2]
  $ kodama onnx-fuzz --seed 3 --count 1 --chip tiny | tail -1
  1 graphs from seed 3 in 3 runs (tiny; gfloat, half, float): 3 passed, 0 of them by more than the tolerance but as rounding explains, 0 not supported, 0 failed

A breakpoint where no statement is:

  $ kodama sim p.vsm --break 999 < /dev/null
  kodama: error: line 999 has no statement to stop at; the last one is in line 1
  [2]
  $ printf '\n# a comment\nnop\n' > late.vsm
  $ kodama sim late.vsm --break 2 < /dev/null
  kodama: error: line 2 has no statement to stop at; the next one is in line 3
  [2]

Schedule files:

  $ problem() { echo "{\"resources\": [{\"name\": \"u\"}], \"operations\": [$1], \"dependences\": []$2}" > s.json; }
  $ problem '{"text": "a", "uses": []}' ', "dependance": []'; kodama schedule s.json
  kodama: error: s.json: the file: found 'dependance', allowed: name, loop, resources, classes, operations, dependences, separations
  [2]
  $ problem '{"text": "a", "usage": []}'; kodama schedule s.json
  kodama: error: s.json: operations[0]: found 'usage', allowed: id, text, earliest, takes_step, uses, classes
  [2]
  $ problem '{"id": 0, "text": "a"}, {"id": 0, "text": "b"}'; kodama schedule s.json
  kodama: error: s.json: operations[1].id: found 0, allowed: 1, its place in the list
  [2]
  $ problem '{"text": "a", "text": "b"}'; kodama schedule s.json
  kodama: error: s.json: found 'text' twice in one object, allowed: once
  [2]
  $ problem '{"text": "a", "earliest": 18446744073709551615}'; kodama schedule s.json
  kodama: error: s.json: operations[0].earliest: found 18446744073709551615, allowed: an integer of 32 bits
  [2]
  $ problem '{"id": 0, "text": "a", "uses": [{"resource": 0}]}'; kodama schedule s.json -o out.json
  : 1 operations, 0 dependences
  bound: 1 steps (critical path 1, resources 1)
  list: steps 1, no schedule is shorter
      0  a
  wrote out.json
  $ sed -i 's/"steps"/"stops"/' out.json; kodama schedule s.json --check out.json
  kodama: error: out.json: the file: found 'stops', allowed: name, interval, steps, optimal, issue
  [2]
  $ kodama schedule s.json --check out.json --scheduler list
  kodama: error: schedule --scheduler: no effect with --check; what has one: --check, --draw, --output, problem
  [2]
  $ (printf '['; printf '[%.0s' $(seq 20000)) > deep.json; kodama schedule deep.json
  kodama: error: deep.json: found more than 32 levels of lists and objects, allowed: as many
  [2]

Names from files don't command the terminal:

  $ printf 'p.vsm\033[31m' > name; printf 'fvadd $lm0\n' > "$(cat name)"
  $ kodama sim "$(cat name)"
  kodama: error: p.vsm\u001b[31m:1:1: 'fvadd' takes 2 source operands, found 1 (syntax: <d|f|h>vadd[r] x z dst...)
  [2]
  $ kodama run "$(printf 'no\033]0;title\007.onnx')"
  kodama: error: no\u001b]0;title\u0007.onnx: no such file
  [2]
  $ kodama opt p.vsm -o "$(printf 'q.vsm\033[31m')" > out
  wrote q.vsm\u001b[31m
  $ printf '{"name": "\\u001b[2J", "resources": [], "operations": [{"text": "\\u009bA"}], "dependences": []}' > s.json
  $ kodama schedule s.json
  \u001b[2J: 1 operations, 0 dependences
  bound: 1 steps (critical path 1, resources 1)
  list: steps 1, no schedule is shorter
      0  \u009bA

Packing files:

  $ echo id,lower,upper,size > none.10.csv; kodama pack none.10.csv
  none.10: 0 buffers, solved (nothing to pack)
  capacity    10
  height      0
  lower bound 0
  nodes       0
