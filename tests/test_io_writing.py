"""Writing tables, whole and in blocks: what stands there after an error, and bounded memory."""

import errno
import json
import os
import stat
import subprocess
import sys

import dask.array as da
import numpy as np
import pytest
from io_tables import WRITABLE, assert_same, refused, small_table

from suquan.files.disk import replace_file
from suquan.io import (
    Table,
    TableError,
    TableWriter,
    iter_row_blocks,
    open_blocks,
    read_labels,
    read_table,
    write_blocks,
    write_table,
)

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


def write_file(path, n_rows):
    """A file with that many rows; returns the sum of its values."""
    rng = np.random.default_rng(0)
    columns = [f"c{j}" for j in range(WIDTH)]
    values = rng.integers(0, 10, (400, WIDTH)).astype(float)
    with TableWriter(path) as writer:
        for start in range(0, n_rows, 400):
            writer.write(Table(values, [f"r{start + i}" for i in range(400)], columns))
    return values.sum() * (n_rows // 400)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("suffix", "orientation"),
    [
        *[("csv", "rows"), ("csv", "median")],
        *(pytest.param(s, "rows", marks=pytest.mark.slow) for s in ("tsv.gz", "parquet", "h5ad")),
    ],
)
def test_memory_does_not_grow_with_the_table(tmp_path, suffix, orientation):
    small, large = tmp_path / f"small.{suffix}", tmp_path / f"large.{suffix}"
    write_file(small, 20_000 if suffix == "parquet" else N_SMALL)  # a whole row group
    n_large = 128_000 if suffix == "parquet" else 16_000
    total = write_file(large, n_large)
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


# ------------------------------------------------------------------------------------------------- writing


def test_names_of_labels_and_features_must_differ_and_the_heading_gives_way(tmp_path):
    table = Table([[1.0]], ["s"], ["a"], {"a": [1]})
    for suffix in ("csv", "parquet"):
        refused("'a' is a label and a feature", write_table, table, tmp_path / f"t.{suffix}")
    assert not list(tmp_path.iterdir())
    for orientation in ("rows", "columns"):
        table = Table([[1.0, 2.0]], ["feature"], ["sample", "b"], {}, orientation)
        for suffix in ("csv", "parquet"):
            write_table(table, tmp_path / f"t.{suffix}")
            assert_same(read_table(tmp_path / f"t.{suffix}", samples=orientation), table)


def write_all(path, blocks):
    with TableWriter(path) as writer:
        for block in blocks:
            if isinstance(block, Exception):
                raise block
            writer.write(block)


@pytest.mark.parametrize("suffix", WRITABLE)
def test_nothing_is_left_after_an_error(tmp_path, suffix):
    path = tmp_path / f"t.{suffix}"
    path.write_text("what was there")
    block = small_table(labels=False)
    other = Table([[1.0]], ["s"], ["a"])
    for blocks, error, said in [
        ([block, RuntimeError("stop")], RuntimeError, "stop"),
        ([block, block], TableError, "written before"),
        ([block, other], TableError, "other features"),
    ]:
        refused(said, write_all, path, blocks, error=error)
    refused("no sample", write_all, path, [])
    refused("infinite", write_table, Table([[np.inf]], ["s"], ["a"]), path)
    assert path.read_text() == "what was there"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize("suffix", WRITABLE)
def test_a_table_that_is_replaced_keeps_its_mode_and_its_link(tmp_path, suffix):
    (tmp_path / "far").mkdir()
    link, file = tmp_path / f"t.{suffix}", tmp_path / "far" / f"real.{suffix}"
    link.symlink_to(file)
    write_table(small_table(labels=False), link)  # to a file that is not there yet
    file.chmod(0o640)
    write_table(small_table(labels=False), link)
    assert link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert_same(read_table(file), read_table(link))
    assert [p.name for p in file.parent.iterdir()] == [file.name]
    for number in (0.0, 1.0):
        write_blocks(da.full((4, 2), number, chunks=(2, 2)), tmp_path / "t.zarr")
        if number == 0.0:
            (tmp_path / "t.zarr").chmod(0o750)
    assert stat.S_IMODE((tmp_path / "t.zarr").stat().st_mode) == 0o750


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes of POSIX")
def test_a_named_pipe_is_neither_read_nor_replaced(tmp_path):
    for name in ("t.csv", "t.npz", "t.npy", "t.h5ad", "labels.csv"):
        pipe, said = tmp_path / name, f"{name} is a device or a pipe"
        os.mkfifo(pipe)
        for work in (open_blocks if name == "t.npy" else read_table, read_labels):
            refused(said, work, pipe, error=ValueError)
        refused(said, replace_file, pipe, lambda file: file.write(b"new"), error=ValueError)
        assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_file_is_whole_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """Else a power failure may leave an empty file; of a full disk the user's name is told."""
    done, sync, move = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda number: done.append("sync") or sync(number))
    monkeypatch.setattr(os, "replace", lambda *names: done.append("move") or move(*names))
    replace_file(tmp_path / "file", lambda file: file.write(b"new"))
    assert done == ["sync", "move"]

    def fail(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    refused(r"No space.*mine\.txt", replace_file, tmp_path / "mine.txt", fail, error=OSError)
    refused(r"mine\.txt", replace_file, tmp_path / "no" / "mine.txt", fail, error=OSError)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "precious.txt").write_text("mine")
    new = tmp_path / "results", lambda file: file.write(b"new")
    refused("results", replace_file, *new, error=OSError)
    assert (tmp_path / "results" / "precious.txt").read_text() == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "results"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("GSE1_series_matrix.txt.gz", "read, not written"),
        ("GSE1_series_matrix.gct", "read, not written"),
        ("t.xls", "known are"),
        ("none/t.csv", "no folder"),
    ],
)
def test_files_that_cannot_be_written(tmp_path, name, said):
    refused(said, write_table, small_table(), tmp_path / name)
    with TableWriter(tmp_path / "GSE1_series_matrix.npz") as writer:
        writer.write(small_table())
    refused("complete", writer.write, small_table(), error=ValueError)
