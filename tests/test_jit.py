"""Kernels: compiled with Numba, cached where that works."""

import importlib
import sys
import warnings

import numba
import pytest

SOURCE = """
from suquan._kernels._jit import kernel

@kernel
def twice(x):
    return 2 * x
"""


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """A function that imports a module with one kernel anew, as another process does; and its cache."""
    cache = tmp_path / "cache"
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(cache))
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "one_kernel.py").write_text(SOURCE)

    def load():
        sys.modules.pop("one_kernel", None)
        return importlib.import_module("one_kernel").twice

    yield load, cache
    sys.modules.pop("one_kernel", None)


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("content", [b"", b"no cache", None])
def test_a_damaged_cache_is_named_and_not_used(fresh, kind, content):
    load, cache = fresh
    assert load()(2) == 4
    (file,) = cache.rglob(f"*.{kind}")
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2] if content is None else content)
    with pytest.warns(UserWarning, match=f"delete the folder {file.parent}"):
        assert load()(3) == 6
    file.unlink()  # with the folder, as told
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load()(4) == 8


def test_a_cache_that_cannot_be_written_is_named(fresh, monkeypatch):
    load, cache = fresh
    twice = load()
    cache_file = type(twice._cache._cache_file)

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_file, "save", full)
    with pytest.warns(UserWarning, match="No space left on device.*delete the folder"):
        assert twice(2) == 4
