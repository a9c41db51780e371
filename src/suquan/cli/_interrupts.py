"""SIGINT (Ctrl-C), SIGTERM and SIGHUP end a command in good order; used by every command."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

RETRY = 0.05  # seconds until a signal whose exception was lost is sent again
# Left alone, the last two would end the process at once, and leave workers and temporary files behind.
USUAL: dict[int, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
_waiting: list[int] | None = None  # signals that came while processes are started


class Ended(KeyboardInterrupt):
    """A signal has come. KeyboardInterrupt itself would end Python by SIGINT where it had passed an `exec`."""


@contextmanager
def safe_interrupts() -> Iterator[None]:
    """Raise Ended(number) for each signal that has its usual handler; not in other threads.

    An exception in a callback of LLVM or the garbage collector is lost: the signal is sent again then.
    """
    ours = [number for number, usual in USUAL.items() if signal.getsignal(number) is usual]
    if threading.current_thread() is not threading.main_thread():
        ours = []
    retries: dict[int, threading.Timer] = {}
    hook = sys.unraisablehook

    def send_again(lost: Any) -> None:
        if not isinstance(lost.exc_value, Ended):
            return hook(lost)
        (number,) = lost.exc_value.args
        retries[number] = threading.Timer(RETRY, os.kill, (os.getpid(), number))
        retries[number].start()

    sys.unraisablehook = send_again
    for number in ours:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for retry in retries.values():
            retry.cancel()
        for number in ours:
            signal.signal(number, USUAL[number])
        sys.unraisablehook = hook
    for number in retries:
        raise Ended(number)


def _interrupt(number: int, frame: Any) -> None:
    if _waiting is None or _waiting:  # a second signal does not wait
        raise Ended(number)
    _waiting.append(number)


@contextmanager
def starting_processes() -> Iterator[None]:
    """Let signals wait for the end of the context: processes that are half started could not be ended.

    A terminal sends Ctrl-C to all processes. Those that are started here never see it: this one ends them.
    """
    from multiprocessing import resource_tracker

    global _waiting
    resource_tracker.ensure_running()  # before: starting it would lift the mask
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # threads and processes inherit it
    came: list[int] = []
    _waiting = came
    try:
        yield
    finally:
        _waiting = None
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        if came:
            raise Ended(*came)
