"""Reading and writing in blocks: memory does not grow with the number of samples."""

import json
import subprocess
import sys

import numpy as np
import pytest

from suquan.io import Table, TableWriter, iter_row_blocks, write_table

# Growth of the peak memory, in MiB, over a small table of the same kind. (VmHWM, because ru_maxrss begins with
# the peak of the process that started this one.) The budget is made smaller than the table, so that a table
# of ordinary size shows whether it is kept.
MEASURE = """
import json, re, sys
from suquan import streaming
from suquan.io import TableWriter, _matrices, _source, iter_row_blocks

def copy(source, target, samples, orientation):
    if orientation == "median":
        return streaming.normalize_file(source, target, samples="rows", n_jobs=1).n_samples
    total = 0.0
    with TableWriter(target, orientation=orientation) as writer:
        for block in iter_row_blocks(source, samples=samples):
            total += float(block.values.sum())
            writer.write(block)
    return total

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

small, large, target, samples, orientation = sys.argv[1:]
# Every column of every group of rows has an entry in the index of a Parquet file: no tiny groups there.
_source.VALUES = 2**19 if target.endswith("parquet") else 2**17
_matrices.BYTES_PER_BLOCK = streaming.VALUES_AT_ONCE = 2**20
copy(small, target, samples, orientation)
before = peak()
total = copy(large, target, samples, orientation)
print(json.dumps([peak() - before, total]))
"""
N_SMALL, WIDTH = 8_000, 250  # rows of the file, and its columns


def write_file(path, orientation, n_rows):
    """A file with that many rows; returns the sum of its values."""
    rng = np.random.default_rng(0)
    columns = [f"c{j}" for j in range(WIDTH)]
    values = rng.integers(0, 10, (400, WIDTH)).astype(float)
    if orientation == "columns":
        table = Table(
            np.tile(values, (n_rows // 400, 1)).T,
            columns,
            [f"r{i}" for i in range(n_rows)],
            {},
            orientation,
        )
        write_table(table, path)
    else:
        with TableWriter(path) as writer:
            for start in range(0, n_rows, 400):
                writer.write(Table(values, [f"r{start + i}" for i in range(400)], columns))
    return values.sum() * (n_rows // 400)


slow = pytest.mark.slow


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("suffix", "orientation"),
    [
        ("csv", "rows"),
        ("csv", "median"),
        pytest.param("tsv.gz", "rows", marks=slow),
        pytest.param("parquet", "rows", marks=slow),
        pytest.param("h5ad", "rows", marks=slow),
    ],
)
def test_memory_does_not_grow_with_the_table(tmp_path, suffix, orientation):
    small, large = tmp_path / f"small.{suffix}", tmp_path / f"large.{suffix}"
    write_file(small, orientation, 20_000 if suffix == "parquet" else N_SMALL)  # a whole row group
    n_large = 128_000 if suffix == "parquet" else 16_000
    total = write_file(large, orientation, n_large)
    total = n_large if orientation == "median" else total
    samples = orientation if suffix.partition(".")[0] in ("csv", "tsv", "parquet") else "auto"
    arguments = [small, large, tmp_path / f"copy.{suffix}", samples, orientation]
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", MEASURE, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    growth, copied = json.loads(result.stdout)
    assert copied == total
    size = n_large * WIDTH * 8 / 2**20
    print(f"{suffix} {orientation}: {growth:.1f} MiB for a table of {size:.1f} MiB")
    assert growth < size / 2


def test_blocks_have_the_size_that_was_asked_for(tmp_path):
    path = tmp_path / "t.csv"
    write_table(Table(np.ones((1203, 3)), [f"s{i}" for i in range(1203)], ["a", "b", "c"]), path)
    sizes = [block.n_samples for block in iter_row_blocks(path, rows_per_block=100)]
    assert sizes == [100] * 12 + [3]
    assert [block.n_samples for block in iter_row_blocks(path)] == [1203]
    with pytest.raises(ValueError, match="positive"):
        iter_row_blocks(path, rows_per_block=0)
