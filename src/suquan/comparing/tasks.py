"""Tasks of a comparison, side by side, and the directory that keeps finished ones.

:func:`suquan.compare` hands over its study and the names of the tasks; outcomes come back. A task that is in
the directory already is not run again.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import joblib
import numpy as np
from joblib import Parallel, delayed
from joblib.externals.loky.backend.reduction import dumps as dump_by_value
from joblib.externals.loky.process_executor import TerminatedWorkerError

from suquan._progress import Progress
from suquan.files.disk import read_part, replace_file

Task = tuple[str, int]  # method and outer fold


class Outcome(NamedTuple):
    """Result of one method on one outer fold; what a method does not have keeps its default.

    Of the test samples: `probabilities` of classes, (n_test, n_classes); `outputs`, (n_test, n_outputs).
    """

    score: float
    inner_score: float = np.nan
    alpha: float = np.nan
    smoothness: float = np.nan
    rounds: int = 0
    seconds: float = 0.0
    target: np.ndarray = np.empty(0)
    probabilities: np.ndarray = np.empty(0)
    outputs: np.ndarray = np.empty((0, 1))


def run_tasks(
    study: Any, tasks: list[Task], store: Store, n_jobs: int | None, progress: bool
) -> dict[Task, Outcome]:
    """Compute the outcomes of all tasks but for those that the store holds already."""
    outcomes = {task: found for task in tasks if (found := store.load(task)) is not None}
    todo = [task for task in tasks if task not in outcomes]
    with Progress(len(todo), progress) as display:
        if outcomes:
            display.say(f"continuing: {len(outcomes)} of {len(tasks)} parts were done already")
        for attempt in (1, 2):
            left = [task for task in todo if task not in outcomes]
            run = Parallel(n_jobs=n_jobs, return_as="generator_unordered", pre_dispatch="2*n_jobs")
            try:
                for task, outcome in run(delayed(_run_task)(study, task) for task in left):
                    store.save(task, outcome)
                    outcomes[task] = outcome
                    display.advance(f"{task[0]}, fold {task[1]}")
            except TerminatedWorkerError:
                if attempt == 2:
                    raise
                display.say("a worker process died (out of memory?); its folds are tried once more")
    return outcomes


def _run_task(study: Any, task: Task) -> tuple[Task, Outcome]:
    return task, study.run(*task)


@dataclass(frozen=True)
class Store:
    """Directory of finished tasks, one file each, written in one move; or nothing."""

    directory: Path | None

    @classmethod
    def open(cls, directory: Any, fingerprint: str | None) -> Store:
        """Open or begin a checkpoint; refuse one of other data or settings."""
        if directory is None:
            return cls(None)
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "comparison.json"
        if path.exists():
            try:
                stored = json.loads(path.read_text(encoding="utf-8")).get("fingerprint")
            except (ValueError, AttributeError):
                stored = None
            if stored != fingerprint:
                raise ValueError(
                    f"the checkpoint {str(directory)!r} belongs to other data or settings, or is damaged; give "
                    "another directory, or remove this one to start anew."
                )
        else:
            text = json.dumps({"fingerprint": fingerprint})
            replace_file(path, lambda file: file.write(text.encode()))
        return cls(directory)

    def _path(self, task: Task) -> Path:
        assert self.directory is not None
        name = hashlib.sha256(task[0].encode()).hexdigest()[:16]
        return self.directory / f"{name}-{task[1]}.npz"

    def load(self, task: Task) -> Outcome | None:
        """Read the outcome of a finished task, or None."""
        return None if self.directory is None else read_part(self._path(task), _read_outcome)

    def save(self, task: Task, outcome: Outcome) -> None:
        """Keep the outcome of a task."""
        if self.directory is not None:
            fields: dict[str, Any] = outcome._asdict()
            replace_file(self._path(task), lambda file: np.savez(file, **fields))


def _read_outcome(file: IO[bytes]) -> Outcome:
    with np.load(file, allow_pickle=False) as stored:
        values = {name: stored[name] for name in Outcome._fields}
    return Outcome(**{name: v if v.ndim else v.item() for name, v in values.items()})


def digest_of(value: Any) -> str:
    """Hash a value by its whole state; functions and classes by their names."""
    try:
        return joblib.hash(value)
    except (AttributeError, TypeError, pickle.PicklingError):
        return joblib.hash(bytes(dump_by_value(value)))
