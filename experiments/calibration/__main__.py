"""Run this experiment: ``python -m experiments.calibration --help``."""

import sys

from ..command import main
from . import EXPERIMENT

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
