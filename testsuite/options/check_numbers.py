"""Every numeric option of every command refuses what is no number in its range: check_numbers.py KODAMA"""
import functools
import os
import re
import subprocess
import sys

KODAMA = sys.argv[1]
WRONG = ["99999999999999999999", "-1", "nan", "inf", "0x10", "1e3x", "1 ", ""]
# Of each option one of them, of the next one another; all in the long suite (KODAMA_LONG=1 tools/test.sh).
SHARE = 1 if "KODAMA_LONG" in os.environ else len(WRONG)


def run(*arguments):
    return subprocess.run([KODAMA, *arguments], capture_output=True, text=True, timeout=20)


@functools.cache
def help_of(command):
    result = run(*command, "--help")
    assert result.returncode == 0, (command, result.stderr)
    return result.stdout


def commands(command=()):
    """The command, and those below it."""
    yield command
    _, _, below = help_of(command).partition("Subcommands:\n")
    for line in below.splitlines():
        found = re.match(r"  (\S+)", line)
        if found:
            yield from commands((*command, found.group(1)))


def numeric_options(command):
    for line in help_of(command).splitlines():
        found = re.match(r"  (?:-\w,)?(--[\w-]+) (?:U?INT|FLOAT)\b", line)
        if found:
            yield found.group(1)


count = 0
faults = []
for command in commands():
    for option in numeric_options(command):
        count += 1
        for value in WRONG[count % SHARE::SHARE]:
            result = run(*command, f"{option}={value}")
            wanted = f"kodama: error: {option}: found '{value}', allowed: a "
            if value == "":  # CLI11's own message
                wanted = "kodama: error: "
            if result.returncode != 2 or not result.stderr.startswith(wanted):
                faults.append(f"{' '.join(command)} {option}={value}: exit {result.returncode}, {result.stderr!r}")
print("\n".join(faults))
print(f"{count} numeric options, {len(faults)} faults")
sys.exit(1 if faults or count < 20 else 0)
