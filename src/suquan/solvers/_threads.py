"""Threads of the solvers: BLAS has one while a solver runs, and blocks of large products go to our own.

NumPy and SciPy may each bring a BLAS, whose threads wait for work in a loop for some 30 ms: used in turn,
they take the processors from each other. Every public function of the solvers is called inside
:func:`one_blas_thread`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

# Multiplications that take one thread as long as handing out work to others.
_FEW_MULTIPLICATIONS = 4_000_000


class _Limit:
    """The one call at a time that holds BLAS to one thread, and how many threads BLAS had before."""

    def __init__(self) -> None:
        self.held = threading.Lock()
        self.n_before = 0


_limit = _Limit()
# A forked process has none of the threads that may hold the lock.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.__init__)  # type: ignore[misc]


@cache
def blas() -> ThreadpoolController:
    """The BLAS libraries of this process; looking for them takes 0.5 ms."""
    return ThreadpoolController().select(user_api="blas")


def _n_blas_threads() -> int:
    return max((library["num_threads"] for library in blas().info()), default=1)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One BLAS thread until the outermost call ends; calls inside or beside it do nothing."""
    if not _limit.held.acquire(blocking=False):
        yield
        return
    try:
        _limit.n_before = _n_blas_threads()
        with blas().limit(limits=1):
            yield
    finally:
        _limit.n_before = 0
        _limit.held.release()


def n_threads(n_multiplications: int) -> int:
    """As many threads as BLAS has, or had before :func:`one_blas_thread`, unless the work is small."""
    if n_multiplications < _FEW_MULTIPLICATIONS:
        return 1
    return _limit.n_before or _n_blas_threads()
