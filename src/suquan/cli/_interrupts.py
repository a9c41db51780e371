"""Ctrl-C, while LLVM is at work too."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_WAIT = 0.05  # seconds until a Ctrl-C that came at the wrong time is tried again


@contextmanager
def interrupts_outside_llvm() -> Iterator[None]:
    """Let Ctrl-C wait while LLVM compiles or loads a kernel.

    It calls Python back meanwhile, and an exception raised in such a call is printed and lost: the command
    would go on. Does nothing in other threads, and where Ctrl-C is ignored or has a handler of its own.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    waiting: list[threading.Timer] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        waiting.clear()
        if not _is_in_llvm(frame):
            raise KeyboardInterrupt
        timer = threading.Timer(_WAIT, _interrupt_main_thread)
        timer.daemon = True
        waiting.append(timer)
        timer.start()

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for timer in waiting:
            timer.cancel()
    if waiting:
        raise KeyboardInterrupt


def _interrupt_main_thread() -> None:
    """As Ctrl-C does: with a signal, where there are signals, as that wakes a thread that sleeps or waits."""
    main = threading.main_thread().ident
    if main is not None and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main, signal.SIGINT)
    else:
        _thread.interrupt_main()


def _is_in_llvm(frame: FrameType | None) -> bool:
    """Whether `frame` or one that led to it is code of llvmlite."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == "llvmlite":
            return True
        frame = frame.f_back
    return False
