"""Ctrl-C at moments when it would be lost, or leave processes behind; used by every command."""

import gc
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

RETRY = 0.05  # seconds until a Ctrl-C that came at the wrong time is tried again
_starting = False  # whether processes are being started


@contextmanager
def safe_interrupts() -> Iterator[None]:
    """Let Ctrl-C wait while LLVM or the garbage collector call Python, and while :func:`starting_processes`.

    An exception raised in such a call is printed and lost: the command would go on. A second Ctrl-C does not
    wait for processes. Does nothing in other threads, and where Ctrl-C is ignored or has a handler of its own.
    """
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or threading.current_thread() is not threading.main_thread():
        yield
        return
    n_asked, waiting, collecting = 0, False, False

    def note(phase: str, info: dict[str, int]) -> None:
        nonlocal collecting
        collecting = phase == "start"

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal n_asked, waiting
        n_asked += number == signal.SIGINT
        waiting = collecting or _is_called_back(frame) or (_starting and n_asked < 2)
        if not waiting:
            raise KeyboardInterrupt
        signal.setitimer(signal.ITIMER_REAL, RETRY)  # then SIGALRM comes here

    gc.callbacks.insert(0, note)
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        gc.callbacks.remove(note)
        if waiting:
            signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    if waiting:
        raise KeyboardInterrupt


def _is_called_back(frame: FrameType | None) -> bool:
    """Whether `frame` or one that led to it is code of llvmlite, or a callback of the garbage collector."""
    collecting = {getattr(getattr(f, "__func__", f), "__code__", None) for f in gc.callbacks}
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package == "llvmlite" or frame.f_code in collecting:
            return True
        frame = frame.f_back
    return False


@contextmanager
def starting_processes() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the context: processes that are half started could not be ended.

    A terminal sends Ctrl-C to all processes. Those that are started here never see it: this one ends them.
    """
    from multiprocessing import resource_tracker

    global _starting
    resource_tracker.ensure_running()  # before: starting it would lift the mask
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # threads and processes inherit it
    _starting = True
    try:
        yield
    finally:
        _starting = False
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
