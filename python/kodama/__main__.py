"""``python3 -m kodama``: the command ``kodama``, which can also load passes in Python (``--plugin FILE.py``)."""

import sys

from . import _kodama, passes  # noqa: F401  (passes loads such files)


def main() -> int:
    sys.stdout.flush()
    return _kodama.run_command_line(["python3 -m kodama"] + sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
