"""``suquan demo``: the whole job on simulated patients."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from suquan._files import replace_file
from suquan.cli._compare import check_folder, run_compare
from suquan.cli._fit import run_fit
from suquan.cli._inputs import LabelChoice
from suquan.cli._output import Output
from suquan.cli._predict import run_predict
from suquan.datasets import make_corrupted_classification, skewed_mixture
from suquan.io import Table, write_table

N_PATIENTS = 1000
N_GENES = 60
METHODS = ("median", "normal", "uniform", "exponential", "cauchy", "bnd", "crossfit")
GRIDS: dict[str, Any] = {"alphas": 4, "smoothnesses": 3}


def run_demo(folder: Path, output: Output, *, seed: int, n_jobs: int) -> None:
    """Simulate, compare, fit, save, score a new patient, report."""
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    table, labels, patient = write_data(folder, seed)
    output.say(
        f"{N_PATIENTS} simulated patients, {N_GENES} genes. Relapse depends on the values after normalisation "
        "to a target that is none of the usual ones; the files show another scale."
    )
    choice = LabelChoice(file=labels, column="relapse", positive="yes")
    cv, inner = (3, 2), (3, 1)
    reading: dict[str, Any] = {
        "samples": "auto",
        "layer": None,
        "ignore": (),
        "ties": "average",
        "missing": "error",
    }
    grid_options = ["--alphas", str(GRIDS["alphas"]), "--smoothnesses", str(GRIDS["smoothnesses"])]

    command = ["suquan", "compare", str(table), *choice.options(), "--out", str(folder)]
    command += ["--methods", ",".join(METHODS), "--cv", "3x2", "--inner-cv", "3x1", *grid_options]
    _step(output, "Does learning the target help?", command)
    run_compare(
        table,
        folder,
        output,
        labels=choice,
        methods=METHODS,
        cv=cv,
        inner_cv=inner,
        n_knots=None,
        permutations=0,
        seed=seed,
        n_jobs=n_jobs,
        command=[*command, "--seed", str(seed)],
        resumable=False,
        **GRIDS,
        **reading,
    )
    model = folder / "relapse.suquan"
    command = ["suquan", "fit", str(table), *choice.options(), "--cv", "3x1", *grid_options]
    _step(output, "A model of all patients, in one file", [*command, "-o", str(model)])
    run_fit(
        table,
        model,
        output,
        labels=choice,
        methods=["crossfit"],
        cv=inner,
        n_knots=None,
        seed=seed,
        n_jobs=n_jobs,
        **GRIDS,
        **reading,
    )
    scores = folder / "scores.csv"
    command = ["suquan", "predict", str(model), str(patient), "-o", str(scores)]
    _step(output, "A new patient, alone", command)
    run_predict(
        model,
        patient,
        scores,
        output,
        samples="auto",
        layer=None,
        ignore=(),
        missing=None,
        max_lost=0.2,
    )
    header, row = (line.split(",") for line in scores.read_text().splitlines())
    output.table(header, [[row[0], float(row[1]), float(row[2]), row[3]]])
    output.say(f"report: {(folder / 'report.html').resolve()}", strong=True)
    output.keep(report=str((folder / "report.html").resolve()))


def _step(output: Output, title: str, command: Sequence[str]) -> None:
    output.say("")
    output.say(title, strong=True)
    output.say(f"$ {shlex.join(command)}")


def write_data(folder: Path, seed: int) -> tuple[Path, Path, Path]:
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
    lines = ["sample,relapse"]
    lines += [
        f"{name},{'yes' if event else 'no'}" for name, event in zip(patients, y[:-1], strict=True)
    ]
    replace_file(labels, lambda file: file.write(("\n".join(lines) + "\n").encode()))
    return table, labels, patient
