"""Threads of the w-step: those of BLAS, and our own in their place."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

from suquan._blocks import on_threads

# Threads that BLAS has lent us.
_lent = threading.local()

# Matrices with fewer entries than this are faster on one BLAS thread.
_ONE_THREAD = 250_000
# Entries of a square matrix up to which a factor gains less from two threads than products with it lose where
# the former are SciPy's and the latter NumPy's.
LARGE_FACTOR = 1500**2
# Multiplications that take one thread as long as handing out work to others.
_FEW_MULTIPLICATIONS = 4_000_000


@cache
def blas() -> ThreadpoolController:
    """The BLAS libraries of this process."""
    return ThreadpoolController().select(user_api="blas")


def _n_blas_threads() -> int:
    return max((library.num_threads for library in blas().lib_controllers), default=1)


class _OneThread:
    """BLAS on one thread while any thread wants that; the number before, for those that do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_users = 0
        self._n_before = 1
        self._limiter: Any = None

    def enter(self) -> int:
        """Limit BLAS, and return how many threads it had."""
        with self._lock:
            if self._n_users == 0:
                self._n_before = _n_blas_threads()
                self._limiter = blas().limit(limits=1)
            self._n_users += 1
            return self._n_before

    def leave(self) -> None:
        """Give BLAS its threads back where nobody else wants it on one."""
        with self._lock:
            self._n_users -= 1
            if self._n_users == 0:
                _let_any_thread_set_limits()
                self._limiter.restore_original_limits()
                _let_any_thread_set_limits()


def _let_any_thread_set_limits() -> None:
    """Undo that threadpoolctl, from version 3.8 on, lets only the first thread that sets a limit do so."""
    for library in blas().lib_controllers:
        release = getattr(library, "clear_controlling_thread", None)
        if release is not None:
            release(force=True)


_one_thread = _OneThread()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One BLAS thread; products with large matrices are shared by threads of our own.

    NumPy and SciPy may each have a BLAS, and each has threads that wait for work in a loop for some 30 ms: used
    in turn, they take the processors from each other and from us.
    """
    if hasattr(_lent, "n_threads"):
        yield
        return
    _lent.n_threads = _one_thread.enter()
    try:
        yield
    finally:
        _one_thread.leave()
        del _lent.n_threads


@contextmanager
def few_threads(size: int, most: int = _ONE_THREAD) -> Iterator[bool]:
    """As :func:`one_blas_thread`, for matrices of up to `most` entries; the cached controller costs 10 µs.

    Gives whether that is so.
    """
    if size > most:
        yield False
        return
    with one_blas_thread():
        yield True


def n_threads(n_multiplications: int) -> int:
    """As many threads as BLAS has, or had before :func:`one_blas_thread`, unless the work is small."""
    if n_multiplications < _FEW_MULTIPLICATIONS:
        return 1
    return getattr(_lent, "n_threads", None) or _n_blas_threads()


def share(function: Callable[[slice], None], parts: list[slice], n_multiplications: int) -> None:
    """Have threads call `function` on all parts."""
    for _ in on_threads(function, parts, n_threads(n_multiplications)):
        pass
