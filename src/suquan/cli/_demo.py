"""``suquan demo``: a short script of other commands, on simulated patients."""

import shlex
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path

import numpy as np

from suquan.cli import main
from suquan.cli._options import Demo
from suquan.cli._output import Output
from suquan.datasets import make_corrupted_classification, skewed_mixture
from suquan.io import Table, write_table

N_PATIENTS, N_GENES = 1000, 60
METHODS = "raw,median,uniform,normal,crossfit,forest,forest_raw"
SAMPLES = (
    "{out}/patients.csv --label relapse --positive yes --alphas 4 --smoothnesses 3 --seed {seed}"
)
SCRIPT = {
    "Does learning the target help?": f"compare {SAMPLES} --out {{out}} --methods {{methods}} --cv 3x2 "
    "--inner-cv 3x1",
    "A model of all patients, in one file": f"fit {SAMPLES} --cv 3x1 -o {{out}}/relapse.suquan",
    "A new patient, alone": "predict {out}/relapse.suquan {out}/new.csv -o {out}/scores.csv",
}


def run(options: Demo, output: Output) -> None:
    """Simulate patients, then compare, fit, save, score a new patient, report."""
    folder = options.out
    folder.mkdir(parents=True, exist_ok=True)
    _write_patients(folder, options.seed)
    output.say(
        f"{N_PATIENTS} simulated patients, {N_GENES} genes. Relapse depends on the values after normalisation "
        "to a target that is none of the usual ones; the files show another scale."
    )
    words = {"out": shlex.quote(str(folder)), "seed": options.seed, "methods": METHODS}
    for title, script in SCRIPT.items():
        command = shlex.split(script.format(**words))
        output.say("")
        output.say(title, strong=True)
        output.say(f"$ suquan {shlex.join(command)}")
        command += ["--quiet"] * options.quiet
        command += ["--n-jobs", str(options.n_jobs)] * (command[0] != "predict")
        with redirect_stdout(sys.stderr) if options.as_json else nullcontext():
            code = main(command)
        if code:
            sys.exit(code)
    header, row = (line.split(",") for line in (folder / "scores.csv").read_text().splitlines())
    output.table(header, [[row[0], float(row[1]), float(row[2]), row[3]]])
    report = (folder / "report.html").resolve()
    output.say(f"report: {report}", strong=True)
    output.keep(report=str(report))


def _write_patients(folder: Path, seed: int) -> None:
    """Write a table with its labels, and one new patient, as CSV files."""
    X, y = make_corrupted_classification(
        N_PATIENTS + 1, N_GENES, target=skewed_mixture, corrupted="normal", random_state=seed
    )
    # Every patient is measured on a scale of their own, which quantile normalisation takes away.
    shift, scale = np.random.default_rng(seed).normal(size=(2, len(X), 1))
    X = np.round(8.0 + shift + np.exp(0.3 * scale) * X, 4)
    genes = np.array([f"GENE{j + 1:03d}" for j in range(N_GENES)])
    patients = np.array([f"patient{i + 1:04d}" for i in range(N_PATIENTS)])
    labels = {"relapse": np.where(y[:-1], "yes", "no")}
    write_table(Table(X[:-1], patients, genes, labels), folder / "patients.csv")
    write_table(Table(X[-1:], np.array(["new patient"]), genes), folder / "new.csv")
