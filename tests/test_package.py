"""The package as it is installed: what importing it loads, where it works, what it costs."""

import importlib.metadata
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import suquan

PACKAGE = Path(suquan.__file__).parent
NOT_LOADED = [
    *("pandas", "matplotlib", "polars", "pyarrow", "anndata", "h5py"),
    *("typer", "qnorm", "skimage", "cvxpy"),
]


def run_python(code, *arguments, **environment):
    """What the code prints as JSON, run in a fresh interpreter."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


# ----------------------------------------------------------------------------------------- public names


def test_the_version_is_the_installed_one():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", suquan.__version__)
    assert importlib.metadata.version("suquan") == suquan.__version__


def test_the_names_of_the_first_release_are_public():
    names = {
        "QuantileNormalizer",
        "__version__",
        "make_target_quantiles",
        "permutation_matrix",
        "quantile_normalize",
        "rank_samples",
    }
    assert names <= set(suquan.__all__)
    assert all(hasattr(suquan, name) for name in suquan.__all__)
    assert list(suquan.__all__) == sorted(suquan.__all__)


def test_public_names_and_modules_are_there_when_asked_for():
    code = """
import json, sys
import suquan
before = [name for name in sys.modules if name.partition(".")[0] == "numpy"]
listed = dir(suquan)
from suquan import *
print(json.dumps([before, listed, sorted(set(globals()) & set(suquan.__all__)), suquan.prox.__name__]))
"""
    before, listed, names, module = run_python(code)
    assert before == []  # the command line is not to wait for NumPy
    assert set(suquan.__all__) <= set(listed)
    assert names == sorted(suquan.__all__)
    assert module == "suquan.prox"
    with pytest.raises(AttributeError, match="no attribute 'unknown'"):
        suquan.unknown  # noqa: B018


@pytest.mark.parametrize("name", [name for name in suquan.__all__ if not name.startswith("__")])
def test_every_public_name_is_documented_with_a_runnable_example(name):
    text = inspect.getdoc(getattr(suquan, name))
    assert text
    assert "Examples\n--------" in text
    assert ">>> " in text


def test_dir_shows_the_public_names_alone():
    shown = set(dir(suquan))
    assert set(suquan.__all__) < shown
    assert not {name for name in shown if name.startswith("_")} - {"__version__"}
    assert not shown & {"Any", "TYPE_CHECKING", "importlib"}
    assert all(hasattr(suquan, name) for name in shown)


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        ("rank_samples", "X"),
        ("permutation_matrix", "x"),
        ("make_target_quantiles", "target, n_features"),
        (
            "quantile_normalize",
            "X, target_quantiles='median', *, ties='average', missing='error', n_jobs=None, axis=None",
        ),
        (
            "QuantileNormalizer",
            "target_quantiles='median', *, ties='average', missing='error', n_jobs=None",
        ),
    ],
)
def test_signatures_are_those_of_the_documentation(name, signature):
    parameters = inspect.signature(getattr(suquan, name)).parameters.values()
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    assert str(inspect.Signature(plain)) == f"({signature})"


# --------------------------------------------------------------------------------------------- warnings


@pytest.mark.parametrize("category", [DeprecationWarning, PendingDeprecationWarning, FutureWarning])
def test_warnings_are_errors_in_our_code_and_not_inside_the_packages_of_extras(category):
    def warn_in(module):
        warnings.warn_explicit("old", category, f"{module}.py", 1, module=module)

    for module in ("suquan.io._h5ad", "test_io_formats", "sklearn.base", "pandas_of_ours"):
        with pytest.raises(category, match="old"):
            warn_in(module)
    for module in (
        "anndata._core.anndata",
        "pandas.core.frame",
        "pandas",
        "zarr.api",
        "dask.array",
    ):
        warn_in(module)


# ---------------------------------------------------------------------------------------------- imports


def test_the_package_loads_no_extra_by_itself():
    # scikit-learn imports pandas where it is installed, so its own imports come first.
    code = """
import json, sys
import joblib, numba, scipy.sparse, sklearn.base, sklearn.utils.validation
before = set(sys.modules)
import numpy, suquan, suquan.io
suquan.quantile_normalize(numpy.eye(3), "mean")
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    loaded = {name.partition(".")[0] for name in run_python(code)}
    assert "suquan" in loaded
    assert loaded.isdisjoint(NOT_LOADED)


def test_the_package_works_without_any_extra():
    code = """
import json, sys
for name in sys.argv[1:]:
    sys.modules[name] = None
import numpy, suquan
print(json.dumps(suquan.quantile_normalize(numpy.eye(2), [0.0, 1.0]).tolist()))
"""
    assert run_python(code, *NOT_LOADED) == [[1.0, 0.0], [0.0, 1.0]]


# ------------------------------------------------------------------------------- read-only installation


def test_kernels_compile_in_memory_where_nothing_can_be_written(tmp_path):
    """Files stand where the cache directories should be made: this stops even the superuser."""
    copy = tmp_path / "site" / "suquan"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").write_text("")
    (tmp_path / "file").write_text("")
    nowhere = str(tmp_path / "file" / "below")
    code = (
        "import json, suquan\n"
        "ranks, order = suquan.rank_samples([[30.0, 10.0, 20.0]])\n"
        "print(json.dumps([suquan.__file__, ranks.tolist(), order.tolist()]))"
    )
    where, ranks, order = run_python(
        code,
        PYTHONPATH=str(copy.parent),
        PYTHONDONTWRITEBYTECODE="1",
        HOME=nowhere,
        XDG_CACHE_HOME=nowhere,
        NUMBA_CACHE_DIR="",
        IPYTHONDIR=nowhere,
    )
    assert Path(where) == copy / "__init__.py"
    assert ranks == [[2, 0, 1]]
    assert order == [[1, 2, 0]]
    assert not list(tmp_path.rglob("*.nbi"))


def test_kernels_are_cached_where_they_can_be(tmp_path):
    code = (
        "import json, suquan\n"
        "from suquan._kernels.operators import node_position\n"
        "node_position(1, 2, 3)\n"
        "print(json.dumps(sum(node_position.stats.cache_misses.values())))"
    )
    assert run_python(code, NUMBA_CACHE_DIR=str(tmp_path)) == 1
    assert list(tmp_path.rglob("*.nbi"))
    assert run_python(code, NUMBA_CACHE_DIR=str(tmp_path)) == 0


# ----------------------------------------------------------------------------------------------- memory

_MEMORY = """
import json, sys
import numpy as np
import suquan

def peak():
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))

dtype = sys.argv[1]
rng = np.random.default_rng(0)
small = rng.normal(size=(4, 64)).astype(dtype)
suquan.quantile_normalize(small, "mean", n_jobs=2)
X = np.empty((400, 22283), dtype)
for row in X:
    row[:] = rng.normal(size=row.size)
before = peak()
out = suquan.quantile_normalize(X, "mean", n_jobs=2)
print(json.dumps((peak() - before - out.nbytes) / out.nbytes))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's memory counters")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_peak_memory_beyond_input_and_output_is_little_more_than_ranks_of_16_bits(dtype):
    # 5 MB and more for the buffers of two threads and for what the allocator keeps
    assert run_python(_MEMORY, dtype) <= 2 / np.dtype(dtype).itemsize + 0.15


def test_rows_are_read_in_place_where_they_can_be():
    from suquan.ranking import as_bits

    X = np.zeros((10, 5))
    bits, is_float = as_bits(X[2:6])
    assert np.shares_memory(bits, X)
    assert is_float
