#!/bin/sh
# pip.sh PYTHON BUILD SOURCE: `pip install` into a folder of its own, and a program that uses it from elsewhere.
set -eu
python=$1 build=$2 source=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# A copy: pip writes beside the sources.
mkdir "$scratch/source"
cp -r "$source/python" "$source/pyproject.toml" "$source/setup.py" "$source/CMakeLists.txt" "$scratch/source"
KODAMA_BUILD=$build "$python" -m pip install -q --no-build-isolation --no-deps --no-index --target "$scratch/site" "$scratch/source"
cd "$scratch"
export PYTHONPATH="$scratch/site"
"$python" -c '
import kodama, os
assert kodama.__file__.startswith(os.environ["PYTHONPATH"]), kodama.__file__
assert kodama.chip("tiny")["source_file"].startswith(os.environ["PYTHONPATH"]), kodama.chip("tiny")
assert kodama.simulate("nop/3\n", "tiny").cycles == 12
'
# The version of the package is the program's.
"$python" -c '
import importlib.metadata, kodama
assert importlib.metadata.version("kodama") == kodama.__version__, importlib.metadata.version("kodama")
'
"$python" -m kodama --version
