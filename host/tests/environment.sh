#!/bin/bash
# environment.sh KODAMA VECTOR_ADD EXAMPLES: what the environment variables do.
set -euo pipefail
kodama=$1 program=$2
cd "$3"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export MNC2_EMU_CONFIG=1

# A kernel's cycles and steps are those of `kodama sim`.
KODAMA_STATS=$folder/stats.json "$program"
"$kodama" sim vector_add.vsm 2>"$folder/sim"
python3 - "$folder/stats.json" "$folder/sim" <<'P'
import json, re, sys
stats = json.load(open(sys.argv[1]))
steps, cycles = re.search(r"(\d+) steps .* (\d+) cycles", open(sys.argv[2]).read()).groups()
assert stats["steps"] == int(steps), (stats["steps"], steps)
assert stats["cycles"] == int(cycles) == sum(stats["cycles_by_cause"].values()), (stats, cycles)
assert stats["kernels"] == 1 and stats["transfers"] == 3 and stats["bytes"] == 3 * 131072, stats
assert stats["elapsed_cycles"] > stats["cycles"] and stats["devices"][0]["chip"] == "mncore2", stats
P

# A binary kernel; one of another chip; other keys.
"$kodama" asm vector_add.vsm --format=binary -o "$folder/vector_add.idma.dat" 2>"$folder/asm"
(cd "$folder" && "$program")
if (cd "$folder" && KODAMA_CHIP=tiny "$program" 2>"$folder/error"); then echo "a kernel of another chip was taken"; exit 1; fi
grep -q "^mnc2: .*a program for the chip 'mncore2'" "$folder/error"
KODAMA_CHIP=mncore2,transfer.startup_cycles=1000 KODAMA_STATS=$folder/slow.json "$program"
python3 - "$folder/stats.json" "$folder/slow.json" <<'P'
import json, sys
fast, slow = (json.load(open(name))["cycles"] for name in sys.argv[1:])
assert slow > fast + 1000, (fast, slow)
P

# No such chip, no emulator wanted, a file that can't be written.
if KODAMA_CHIP=none "$program" 2>"$folder/error"; then exit 1; fi
grep -q "^mnc2: no chip is named 'none'" "$folder/error"
if (unset MNC2_EMU_CONFIG; "$program") 2>"$folder/error"; then exit 1; fi
grep -q "^mnc2: the environment variable MNC2_EMU_CONFIG" "$folder/error"
KODAMA_STATS=$folder/no/such/folder.json "$program" 2>"$folder/error"
grep -q "^mnc2: .*no/such" "$folder/error"
echo "environment variables do what they say"
