"""``python -m suquan``: the command line."""

import sys

from suquan.cli import main

if __name__ == "__main__":
    sys.exit(main())
