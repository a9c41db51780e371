"""Where tests find data that are not part of the repository."""

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("SUQUAN_DATA", Path(__file__).parents[2] / "shared" / "data"))


def data_file(name):
    """Path of a file in the data folder; the test is skipped where it is absent."""
    path = FOLDER / name
    if not path.is_file():
        pytest.skip(f"{name} is not in {FOLDER}; set SUQUAN_DATA to the folder that has it")
    return path
