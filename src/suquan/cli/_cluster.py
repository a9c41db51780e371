"""The Dask cluster of a command: one that runs already, or one of local processes for as long as it takes."""

import contextlib
import gc
import logging
from collections.abc import Iterator
from typing import Any

from suquan.cli._interrupts import starting_processes
from suquan.cli._options import ClusterOptions
from suquan.io import TableError
from suquan.io._errors import one_line, require

WISH = "--scheduler and --workers"
CONNECT_SECONDS = 3
WORKER_SECONDS = 10


@contextlib.contextmanager
def running_cluster(options: ClusterOptions) -> Iterator[Any]:
    """The client of the cluster, which Dask then uses by itself; None where none was asked for.

    The local processes end with the context, whatever happened in it.
    """
    if not options.has_cluster:
        yield None
        return
    distributed = require("distributed", "dask", WISH)
    for name in ("distributed", "asyncio"):  # what matters comes as an exception
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with contextlib.ExitStack() as stack:
        if options.scheduler is not None:
            yield _connected(distributed, options.scheduler, stack)
            return
        with starting_processes():
            cluster = stack.enter_context(_local(distributed, options.workers))
        yield stack.enter_context(distributed.Client(cluster))


def _local(distributed: Any, workers: int | None) -> Any:
    """Local processes with one thread each: a task has a block, and BLAS keeps to one thread too.

    No process takes over the blocks of another that is busy: every pass would copy some of them.
    """
    dask = require("dask", "dask", WISH)
    settings = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    try:
        with dask.config.set({"distributed.scheduler.work-stealing": False}):
            return distributed.LocalCluster(workers, silence_logs=logging.CRITICAL, **settings)
    except RuntimeError as error:
        raise TableError(
            f"--workers {workers}: the processes did not start ({one_line(error)}); ask for fewer"
        ) from error


def _connected(distributed: Any, address: str, stack: contextlib.ExitStack) -> Any:
    """A client of the scheduler at the address, once there are workers; it closes with the stack."""
    # What is left of a client that found no scheduler closes itself when it is collected. That must not happen
    # while another one starts: both want the same lock of distributed, and neither would ever go on.
    gc.collect()
    try:
        client = stack.enter_context(distributed.Client(address, timeout=CONNECT_SECONDS))
    except (OSError, ValueError, TypeError) as error:
        raise TableError(
            f"--scheduler {address}: no Dask scheduler answers there ({one_line(error, 120)}); check the "
            "address, such as tcp://10.0.0.1:8786, and that it runs"
        ) from error
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError:
        raise TableError(
            f"--scheduler {address}: the cluster has no workers; start some (dask worker {address})"
        ) from None
    return client


def folds_on(client: Any) -> contextlib.AbstractContextManager:
    """Context that sends the folds of a cross-validation to the cluster, if there is one."""
    import joblib

    here = contextlib.nullcontext()
    return here if client is None else joblib.parallel_config(backend="dask", client=client)
