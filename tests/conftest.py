import os
import signal
import sys

import pytest

# Processes that tests start and interrupt begin with the handlers of signals that this process has. It may have
# been started with Ctrl-C or SIGHUP ignored: in the background, by nohup, or by a CI.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

# Before SciPy is imported: scikit-learn's array API checks need it.
os.environ["SCIPY_ARRAY_API"] = "1"

collect_ignore_glob = ["data/*"]


@pytest.fixture(scope="session")
def process_cluster():
    """Two worker processes for all tests that need some: they take seconds to start."""
    import dask
    from distributed import LocalCluster

    options = {"distributed.scheduler.allowed-failures": 1}
    with (
        dask.config.set(options),
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
    ):
        yield cluster


@pytest.fixture
def processes(process_cluster):
    """A client of the worker processes, which Dask uses during the test."""
    from distributed import Client

    with Client(process_cluster) as client:
        client.wait_for_workers(2, timeout=240)
        yield client


@pytest.fixture(autouse=True)
def own_scheduler():
    """Every test begins with Dask's own choice: clients that close out of order leave theirs behind."""
    yield
    if "distributed" in sys.modules:
        import dask
        from distributed import default_client

        try:
            default_client()
        except ValueError:
            dask.config.config.pop("scheduler", None)
