"""``suquan demo``: the whole job on simulated patients, by the other commands."""

import shlex
from pathlib import Path
from typing import Any

import numpy as np

from suquan._files import replace_file
from suquan.cli import _compare, _fit, _predict
from suquan.cli._options import Compare, Demo, Fit, Folds, Options, Predict
from suquan.cli._output import Output
from suquan.datasets import make_corrupted_classification, skewed_mixture
from suquan.io import Table, write_table

N_PATIENTS = 1000
N_GENES = 60
METHODS = ("raw", "median", "uniform", "normal", "crossfit", "forest", "forest_raw")


def run(options: Demo, output: Output) -> None:
    """Simulate, compare, fit, save, score a new patient, report."""
    folder = options.out
    _compare.check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    table, labels, patient = _write_data(folder, options.seed)
    output.say(
        f"{N_PATIENTS} simulated patients, {N_GENES} genes. Relapse depends on the values after normalisation "
        "to a target that is none of the usual ones; the files show another scale."
    )
    shared: dict[str, Any] = {"table": table, "labels": labels, "label": "relapse"}
    shared |= {"positive": "yes", "alphas": 4, "smoothnesses": 3}
    shared |= {"seed": options.seed, "n_jobs": options.n_jobs}
    inner = Folds(3, 1)
    comparison = Compare(
        **shared, out=folder, methods=",".join(METHODS), cv=Folds(3, 2), inner_cv=inner
    )
    _step(output, "Does learning the target help?", comparison)
    _compare.run(comparison, output, resumable=False)
    fit = Fit(**shared, cv=inner, output=folder / "relapse.suquan")
    _step(output, "A model of all patients, in one file", fit)
    _fit.run(fit, output)
    scoring = Predict(model=fit.output, table=patient, output=folder / "scores.csv")
    _step(output, "A new patient, alone", scoring)
    _predict.run(scoring, output)
    header, row = (line.split(",") for line in (folder / "scores.csv").read_text().splitlines())
    output.table(header, [[row[0], float(row[1]), float(row[2]), row[3]]])
    report = (folder / "report.html").resolve()
    output.say(f"report: {report}", strong=True)
    output.keep(report=str(report))


def _step(output: Output, title: str, options: Options) -> None:
    output.say("")
    output.say(title, strong=True)
    output.say(f"$ {shlex.join(options.command())}")


def _write_data(folder: Path, seed: int) -> tuple[Path, Path, Path]:
    """Table, labels and one new patient, as CSV files."""
    X, y = make_corrupted_classification(
        N_PATIENTS + 1, N_GENES, target=skewed_mixture, corrupted="normal", random_state=seed
    )
    rng = np.random.default_rng(seed)
    # Every patient is measured on a scale of their own, which quantile normalisation takes away.
    shift, scale = rng.normal(size=(2, len(X), 1))
    X = np.round(8.0 + shift + np.exp(0.3 * scale) * X, 4)
    genes = np.array([f"GENE{j + 1:03d}" for j in range(N_GENES)])
    patients = np.array([f"patient{i + 1:04d}" for i in range(N_PATIENTS)])
    table, labels, patient = (folder / name for name in ("expression.csv", "labels.csv", "new.csv"))
    write_table(Table(X[:-1], patients, genes), table)
    write_table(Table(X[-1:], np.array(["new patient"]), genes), patient)
    relapse = np.where(y[:-1], "yes", "no")
    lines = [f"{name},{word}\n" for name, word in zip(patients, relapse, strict=True)]
    replace_file(labels, lambda file: file.write("".join(["sample,relapse\n", *lines]).encode()))
    return table, labels, patient
