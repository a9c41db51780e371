"""The Dask cluster of a command: one that runs already, or one of local processes for as long as it takes."""

from __future__ import annotations

import contextlib
import gc
import logging
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from suquan.io import TableError
from suquan.io._errors import one_line, require

CONNECT_SECONDS = 3
WORKER_SECONDS = 10


@dataclass(frozen=True)
class ClusterChoice:
    """What was asked for: an address, a number of local processes, or neither."""

    scheduler: str | None = None
    workers: int | None = None

    def __bool__(self) -> bool:
        return self.scheduler is not None or self.workers is not None

    def options(self) -> list[str]:
        """The same as options of the command line."""
        given = {"--scheduler": self.scheduler, "--workers": self.workers}
        return [str(part) for pair in given.items() if pair[1] is not None for part in pair]


NO_CLUSTER = ClusterChoice()


@contextlib.contextmanager
def running_cluster(choice: ClusterChoice) -> Iterator[Any]:
    """The client of the cluster, which Dask then uses by itself; None where none was asked for.

    The local processes end with the context, whatever happened in it.
    """
    if not choice:
        yield None
        return
    distributed = require("distributed", "dask", "--scheduler and --workers")
    for name in ("distributed", "asyncio"):  # what matters comes as an exception
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with contextlib.ExitStack() as stack:
        if choice.scheduler is not None:
            client = stack.enter_context(_connected(distributed, choice.scheduler))
        else:
            with _late_interrupt():
                cluster = _local(distributed, choice.workers)
                stack.enter_context(cluster)
            client = stack.enter_context(distributed.Client(cluster))
        yield client


def _local(distributed: Any, workers: int | None) -> Any:
    """Local processes with one thread each: a task has a block, and BLAS keeps to one thread too.

    No process takes over the blocks of another that is busy: every pass would copy some of them.
    """
    dask = require("dask", "dask", "--scheduler and --workers")
    try:
        with dask.config.set({"distributed.scheduler.work-stealing": False}):
            return distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",
                silence_logs=logging.CRITICAL,
            )
    except RuntimeError as error:
        raise TableError(
            f"--workers {workers}: the processes did not start ({one_line(error)}); ask for fewer"
        ) from error


@contextlib.contextmanager
def _late_interrupt() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the context: processes that are half started could not be ended.

    A second Ctrl-C does not wait. Processes that are started in the context never see one, as a terminal
    would otherwise send it to all of them: this process ends them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked = []

    def wait(number: int, frame: Any) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, wait)
    masks = hasattr(
        signal, "pthread_sigmask"
    )  # which threads and processes inherit; not on Windows
    if masks:
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()  # before: starting it would lift the mask
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        if masks:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, before)
        if asked:
            raise KeyboardInterrupt


@contextlib.contextmanager
def _connected(distributed: Any, address: str) -> Iterator[Any]:
    # What is left of a client that found no scheduler closes itself when it is collected. That must not happen
    # while another one starts: both want the same lock of distributed, and neither would ever go on.
    gc.collect()
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError, TypeError) as error:
        raise TableError(
            f"--scheduler {address}: no Dask scheduler answers there ({one_line(error, 120)}); check the "
            "address, such as tcp://10.0.0.1:8786, and that it runs"
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=WORKER_SECONDS)
        except TimeoutError:
            raise TableError(
                f"--scheduler {address}: the cluster has no workers; start some (dask worker {address})"
            ) from None
        yield client


@contextlib.contextmanager
def folds_on(client: Any) -> Iterator[None]:
    """Send the folds of a cross-validation to the cluster, if there is one."""
    if client is None:
        yield
        return
    import joblib

    with joblib.parallel_config(backend="dask", client=client):
        yield
