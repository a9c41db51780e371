"""Dask arrays of samples: told apart, checked block by block, computed with readable errors."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client
from numpy.testing import assert_array_equal
from scipy import sparse

from suquan import QuantileNormalizer, quantile_normalize
from suquan._blocks import is_dask_array
from suquan._dask.collections import (
    DaskConnectionError,
    check_row_blocks,
    compute,
    iter_computed,
    map_row_blocks,
)

X = np.round(np.random.default_rng(0).lognormal(size=(40, 5)), 1)


def in_blocks(values=X, rows=4):
    return da.from_array(values, chunks=(rows, values.shape[1]))


def lazily(function, blocks):
    return blocks.map_blocks(function, dtype=blocks.dtype, meta=np.empty((0, 0), blocks.dtype))


def never(block):
    raise AssertionError("a block was computed")


def test_dask_is_not_imported_to_find_out():
    code = """
import json, sys
import numpy as np, pandas as pd
from suquan import QuantileNormalizer
QuantileNormalizer("normal").fit_transform(pd.DataFrame(np.eye(3)))
import suquan.io
print(json.dumps([name for name in ("dask", "distributed", "zarr") if name in sys.modules]))
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == []


def test_only_arrays_of_dask_are_dask_arrays():
    assert is_dask_array(in_blocks())
    for other in (X, X.tolist(), None, sparse.csr_array(X)):
        assert not is_dask_array(other)
    with pytest.raises(TypeError, match="only arrays"):
        is_dask_array(dask.delayed(X))


@pytest.mark.parametrize(
    ("blocks", "kind", "message"),
    [
        (lambda: da.ones(3, chunks=2), ValueError, "two dimensions"),
        (lambda: in_blocks(X.astype(complex)), ValueError, "real numbers"),
        (lambda: in_blocks(X.astype(object)), ValueError, "real numbers"),
        (lambda: in_blocks(X.astype(str)), ValueError, "real numbers"),
        (lambda: in_blocks()[in_blocks()[:, 0] > 0], ValueError, "compute_chunk_sizes"),
        (lambda: in_blocks()[:, :0], ValueError, "0 feature"),
        (lambda: in_blocks()[:0], ValueError, "0 sample"),
        (lambda: in_blocks().map_blocks(sparse.csr_matrix), TypeError, "toarray"),
    ],
)
def test_what_cannot_be_used_is_refused_before_any_work(blocks, kind, message):
    with pytest.raises(kind, match=message):
        check_row_blocks(blocks())
    with pytest.raises(kind, match=message):
        QuantileNormalizer("mean").fit(blocks())


def test_blocks_of_columns_are_joined_lazily():
    blocks = lazily(never, da.from_array(X, chunks=(7, 2)))
    joined = check_row_blocks(blocks)
    assert joined.chunks == ((7, 7, 7, 7, 7, 5), (5,))
    assert check_row_blocks(in_blocks()).name == in_blocks().name


def test_gaps_are_named_by_their_row_in_the_whole_array():
    values = X.copy()
    values[13, 2] = np.nan
    lazy = quantile_normalize(in_blocks(values), "normal")
    with pytest.raises(
        ValueError, match=r"NaN, in block 3 \(rows 12 to 15\) first at sample 13, feature 2"
    ):
        lazy.compute()
    for target in ("mean", "median"):
        with pytest.raises(ValueError, match=r"block 3 \(rows 12 to 15\) first at sample 13"):
            QuantileNormalizer(target).fit(in_blocks(values))
    values[13, 2] = np.inf
    with pytest.raises(ValueError, match=r"infinity, in block 3 .* sample 13, feature 2"):
        QuantileNormalizer("normal").fit_transform(in_blocks(values)).compute()


def test_errors_name_the_block_once_and_keep_their_kind():
    class Odd(Exception):
        def __init__(self, a, b):
            super().__init__(a, b)

    def fail(block, where, error):
        if where.number == 2:
            raise error
        return block

    for error, kind in ((KeyError("k"), KeyError), (Odd(1, 2), RuntimeError)):
        lazy = map_row_blocks(fail, in_blocks(), dtype=float, error=error)
        with pytest.raises(kind, match=r"block 2 \(rows 8 to 11\)") as caught:
            map_row_blocks(fail, lazy, dtype=float, error=None).compute()
        assert str(caught.value).count("block 2") == 1


@pytest.mark.parametrize("kind", [np.asarray, da.from_array])
def test_weights_are_checked(kind):
    bad = np.ones(40)
    bad[6] = np.nan
    for weights, message in ((-np.ones(40), "Negative"), (np.ones(39), r"\(40,\)"), (bad, "NaN")):
        with pytest.raises(ValueError, match=message):
            QuantileNormalizer("mean").fit(in_blocks(), sample_weight=kind(weights))


def test_blocks_come_one_after_the_other():
    found = list(iter_computed(in_blocks(rows=7)))
    assert [start for start, _ in found] == [0, 7, 14, 21, 28, 35]
    assert_array_equal(np.concatenate([values for _, values in found]), X)


def test_other_errors_pass_unchanged():
    with pytest.raises(ZeroDivisionError):
        compute(dask.delayed(lambda: 1 / 0)(), blocks_of=in_blocks())


def test_a_block_that_cannot_be_read_is_named():
    def gone(block, block_info=None):
        if block_info[0]["chunk-location"][0] == 3:
            raise OSError("this part of the disk is gone")
        return block

    with pytest.raises(ValueError, match=r"block 3 \(rows 12 to 15\) could not be read: OSError"):
        QuantileNormalizer("mean").fit(lazily(gone, in_blocks()))


def slow(block):
    time.sleep(0.15)
    return block


def deadly(block, block_info=None):
    if block_info[0]["chunk-location"][0] == 3:
        os._exit(3)
    return block


def test_a_killed_worker_changes_nothing(processes):
    victim = next(iter(processes.run(os.getpid).values()))
    killer = threading.Timer(0.4, os.kill, (victim, signal.SIGKILL))
    killer.start()
    normalizer = QuantileNormalizer("mean").fit(lazily(slow, in_blocks()))
    got = normalizer.transform(lazily(slow, in_blocks())).compute()
    killer.join()
    assert victim not in processes.run(os.getpid).values()
    np.testing.assert_allclose(got, quantile_normalize(X, "mean"), rtol=1e-12)


def test_a_block_that_ends_its_workers_is_named(processes):
    poisoned = lazily(deadly, in_blocks())
    pattern = r"^block (\d+) \(rows (\d+) to (\d+)\), or one beside it, ended 2 workers"
    with pytest.raises(DaskConnectionError, match=pattern) as caught:
        QuantileNormalizer("mean").fit(poisoned)
    # Mostly block 3; on a busy machine one that the same workers had at hand.
    block, first, last = map(int, re.match(pattern, str(caught.value)).groups())
    assert (first, last) == (4 * block, 4 * block + 3)
    assert "\n" not in str(caught.value)
    assert_array_equal(quantile_normalize(in_blocks(), "normal"), quantile_normalize(X, "normal"))


def test_a_lost_scheduler_is_one_clear_error(tmp_path):
    place = tmp_path / "scheduler.json"
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    silent["env"] = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}  # they unpickle `slow`
    part = [sys.executable, "-m"]
    address = ["--scheduler-file", str(place), "--dashboard-address", ":0"]
    scheduler = subprocess.Popen(
        [*part, "distributed.cli.dask_scheduler", *address, "--port", "0"], **silent
    )
    worker = None
    try:
        worker = subprocess.Popen(
            [*part, "distributed.cli.dask_worker", *address, "--no-nanny", "--nthreads", "1"],
            **silent,
        )
        deadline = time.monotonic() + 30
        while not place.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        with Client(scheduler_file=str(place)) as client:
            client.wait_for_workers(1, timeout=30)
            threading.Timer(0.5, scheduler.kill).start()
            with pytest.raises(
                DaskConnectionError, match="connection to the Dask cluster was lost"
            ):
                QuantileNormalizer("mean").fit(lazily(slow, in_blocks()))
    finally:
        for process in filter(None, (scheduler, worker)):
            process.kill()
            process.wait()
