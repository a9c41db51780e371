"""Commands and their options; the work is imported when a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from suquan._version import __version__
from suquan.cli._output import running

EPILOG = "Exit codes: 0 done, 1 a mistake in what was given, 2 wrong usage, 130 interrupted."

app = typer.Typer(
    name="suquan",
    help="Quantile normalisation with given or learned targets, from tables in files: CSV and TSV (also .gz), "
    "Parquet, GCT, GEO series matrix, h5ad, npz. Start with `suquan demo`.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: half the time to show it
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

# -- options that several commands share ------------------------------------------------------------

Cv = tuple[int, int]


def parse_cv(text: str) -> Cv:
    """Folds and repeats of "3x5"; the repeats may be left out."""
    folds, _, repeats = text.lower().replace("×", "x").partition("x")
    try:
        cv = int(folds), int(repeats or 1)
    except ValueError:
        raise typer.BadParameter(f"wanted folds x repeats, such as 3x5; got {text!r}") from None
    if cv[0] < 2 or cv[1] < 1:
        raise typer.BadParameter(f"at least 2 folds and 1 repeat are needed; got {text!r}")
    return cv


def split_names(text: str | None) -> list[str]:
    """Names between commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


Samples = Annotated[
    Literal["auto", "rows", "columns"],
    typer.Option(help="Where the samples lie in the table; auto finds out by names and says so."),
]
Layer = Annotated[str | None, typer.Option(help="Layer of an h5ad file instead of X.")]
Ignore = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Column of the table that is not read; may be repeated."),
]
Ties = Annotated[
    Literal["average", "first", "mean_rank"],
    typer.Option(help="What equal values of a sample get."),
]
Missing = Annotated[
    Literal["error", "ignore"],
    typer.Option(help="Refuse missing values, or rank the observed ones alone."),
]
NJobs = Annotated[int, typer.Option(metavar="N", help="Processes or threads; -1: all cores.")]
Scheduler = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Dask scheduler whose workers do the work."),
]
Workers = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Do the work on a Dask cluster of N local processes."),
]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Seed of all folds.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object with the results.")]
Labels = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="CSV or TSV with a column of sample names and the labels."),
]
Label = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Label column, of --labels or of the table itself."),
]
Positive = Annotated[
    str | None,
    typer.Option(metavar="VALUE", help="Label of the positive class; all others are one."),
]
Time = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Survival: time to event or end of follow-up.")
]
Event = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Survival: 1 where the event came, else 0.")
]
Horizon = Annotated[
    float | None,
    typer.Option(
        metavar="T", help="Survival: event within T against event-free beyond; censored dropped."
    ),
]
SampleColumn = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="Column of sample names in --labels; the first if not given."
    ),
]
Task = Annotated[
    Literal["classification", "regression"], typer.Option(help="Regression for measured values.")
]
Knots = Annotated[
    int | None,
    typer.Option(metavar="N", min=2, help="Learn the target with this many nodes, for speed."),
]
Alphas = Annotated[int, typer.Option(metavar="N", min=1, help="Strengths of the penalty tried.")]
Smoothnesses = Annotated[
    int, typer.Option(metavar="N", min=1, help="Smoothnesses of the target tried.")
]
CvOption = Annotated[
    Any,
    typer.Option(parser=parse_cv, metavar="FxR", help="F folds, R times."),
]
InnerCv = Annotated[
    Any,
    typer.Option(parser=parse_cv, metavar="FxR", help="The same for choosing the penalties."),
]


def label_choice(
    labels: Path | None,
    label: str | None,
    positive: str | None,
    time: str | None,
    event: str | None,
    horizon: float | None,
    sample_column: str | None,
    task: str,
) -> Any:
    """The label options, which must go together."""
    survival = (time, event, horizon)
    if any(part is not None for part in survival):
        if any(part is None for part in survival):
            raise typer.BadParameter("survival labels need all of --time, --event and --horizon")
        if label is not None or positive is not None or task == "regression":
            raise typer.BadParameter(
                "--label, --positive and --task regression do not go with --time, --event and --horizon"
            )
    elif label is None:
        raise typer.BadParameter(
            "name the label column with --label, or give --time, --event and --horizon"
        )
    if positive is not None and task == "regression":
        raise typer.BadParameter("--positive is for classes; leave it out of a regression")
    if sample_column is not None and labels is None:
        raise typer.BadParameter("--sample-column is a column of --labels; give that file too")
    from suquan.cli._inputs import LabelChoice

    return LabelChoice(labels, label, positive, time, event, horizon, sample_column, task)


def cluster_choice(scheduler: str | None, workers: int | None) -> Any:
    """The options of a cluster, of which one may be given."""
    if scheduler is not None and workers is not None:
        raise typer.BadParameter(
            "--scheduler is a cluster that runs, --workers starts one; give one"
        )
    from suquan.cli._cluster import ClusterChoice

    return ClusterChoice(scheduler, workers)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"suquan {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Options of the program itself."""


# -- commands ---------------------------------------------------------------------------------------


@app.command(epilog=EPILOG, short_help="The whole job on simulated patients.")
def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the results.")] = Path(
        "suquan-demo"
    ),
    seed: Seed = 0,
    n_jobs: NJobs = 1,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """The whole job on simulated patients: compare, fit, save, score a new one, report."""
    with running("demo", quiet=quiet, as_json=as_json) as output:
        from suquan.cli._demo import run_demo

        run_demo(out, output, seed=seed, n_jobs=n_jobs)


@app.command(epilog=EPILOG, short_help="Give all samples the same distribution of values.")
def normalize(
    table: Annotated[Path, typer.Argument(metavar="IN", help="Table to normalise.")],
    output_path: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="OUT", help="Where to write; its name says the kind."
        ),
    ],
    target: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="median, mean, normal, uniform, exponential, cauchy, bimodal; or a file: a saved model, "
            ".npy, or text with one number per line.",
        ),
    ] = "median",
    ties: Ties = "average",
    missing: Missing = "error",
    samples: Samples = "auto",
    layer: Layer = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Column (row, where samples lie in columns) that is copied as it is; may be repeated.",
        ),
    ] = None,
    ignore: Ignore = None,
    block_samples: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Samples in memory at a time; by default about 32 MiB."
        ),
    ] = None,
    n_jobs: NJobs = -1,
    scheduler: Scheduler = None,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Give every sample of a table the same distribution of values.

    Tables larger than memory are processed in blocks.
    """
    with running("normalize", quiet=quiet, as_json=as_json) as output:
        cluster = cluster_choice(scheduler, workers)
        from suquan.cli._normalize import run_normalize

        run_normalize(
            table,
            output_path,
            output,
            target=target,
            ties=ties,
            missing=missing,
            samples=samples,
            layer=layer,
            labels=label or (),
            ignore=ignore or (),
            block_samples=block_samples,
            n_jobs=n_jobs,
            cluster=cluster,
        )


@app.command(epilog=EPILOG, short_help="Run an experiment of the SUQUAN paper.")
def reproduce(
    experiment: Annotated[
        Literal["simulated", "cifar10", "expression"],
        typer.Argument(metavar="EXPERIMENT", help="simulated, cifar10 or expression."),
    ],
    protocol: Annotated[
        Literal["quick", "paper"],
        typer.Option(help="quick: for a laptop; paper: as the paper did, hours or more."),
    ] = "quick",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of the results; else EXPERIMENT-PROTOCOL."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder with the data; else SUQUAN_DATA names it."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on in a folder that was begun before.")
    ] = False,
    stage: Annotated[
        Literal["all", "run", "table", "plot"],
        typer.Option(help="One stage alone, from what the stages before it have written."),
    ] = "all",
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Another value for a setting of the protocol, as JSON; may be repeated.",
        ),
    ] = None,
    n_jobs: NJobs = -1,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run an experiment of the SUQUAN paper: tables, figures, and the paper's numbers beside ours."""
    with running("reproduce", quiet=quiet, as_json=as_json) as output:
        from suquan.cli._reproduce import run_reproduce

        run_reproduce(
            experiment,
            output,
            protocol=protocol,
            folder=out,
            data=data,
            resume=resume,
            stage=stage,
            changes=changes or (),
            n_jobs=n_jobs,
        )


@app.command(epilog=EPILOG, short_help="Learn a target and a model, and save them.")
def fit(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="Samples and features.")],
    model: Annotated[
        Path, typer.Option("--output", "-o", metavar="MODEL", help="File to save, .suquan.")
    ],
    labels: Labels = None,
    label: Label = None,
    positive: Positive = None,
    time: Time = None,
    event: Event = None,
    horizon: Horizon = None,
    sample_column: SampleColumn = None,
    task: Task = "classification",
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME[,NAME]",
            help="fixed, svd, f0, bnd, spav, joint, crossfit; of several the best is chosen.",
        ),
    ] = "crossfit",
    cv: CvOption = "3x5",
    alphas: Alphas = 7,
    smoothnesses: Smoothnesses = 5,
    n_knots: Knots = None,
    ties: Ties = "average",
    missing: Missing = "error",
    samples: Samples = "auto",
    layer: Layer = None,
    ignore: Ignore = None,
    seed: Seed = 0,
    n_jobs: NJobs = -1,
    choose_samples: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=10,
            help="In blocks: samples, drawn at random, on which the penalties are chosen.",
        ),
    ] = 5000,
    scheduler: Scheduler = None,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn a target and a model from labelled samples, and save them in one file."""
    with running("fit", quiet=quiet, as_json=as_json) as output:
        choice = label_choice(labels, label, positive, time, event, horizon, sample_column, task)
        cluster = cluster_choice(scheduler, workers)
        from suquan.cli._fit import run_fit

        run_fit(
            table,
            model,
            output,
            labels=choice,
            methods=split_names(method),
            cv=cv,
            samples=samples,
            layer=layer,
            ignore=ignore or (),
            ties=ties,
            missing=missing,
            n_knots=n_knots,
            alphas=alphas,
            smoothnesses=smoothnesses,
            seed=seed,
            n_jobs=n_jobs,
            choose_samples=choose_samples,
            cluster=cluster,
        )


@app.command(epilog=EPILOG, short_help="Score samples with a saved model.")
def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Saved model.")],
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="Samples to score; one is enough.")
    ],
    scores: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="SCORES", help=".csv or .tsv; else standard output."
        ),
    ] = None,
    max_lost: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            min=0.0,
            max=1.0,
            help="Most of the sum of |w| that missing features may carry.",
        ),
    ] = 0.2,
    missing: Annotated[
        Literal["error", "ignore"] | None,
        typer.Option(help="Rule for missing values of present features; by default the model's."),
    ] = None,
    samples: Samples = "auto",
    layer: Layer = None,
    ignore: Ignore = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Score samples with a saved model: sample, score, probability, predicted label.

    Features are matched by name; a sample gets the same score alone and in a batch.
    """
    # Without a file the scores go to standard output, and nothing else does.
    with running("predict", quiet=quiet, as_json=as_json, keep_stdout=scores is None) as output:
        cluster = cluster_choice(scheduler, workers)
        from suquan.cli._predict import run_predict

        run_predict(
            model,
            table,
            scores,
            output,
            samples=samples,
            layer=layer,
            ignore=ignore or (),
            missing=missing,
            max_lost=max_lost,
            cluster=cluster,
        )


@app.command(epilog=EPILOG, short_help="Show what a saved model holds.")
def inspect(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Saved model.")],
    top: Annotated[int, typer.Option(metavar="N", min=0, help="Features to show.")] = 20,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Show what a saved model holds."""
    with running("inspect", quiet=quiet, as_json=as_json) as output:
        from suquan.cli._inspect import run_inspect

        run_inspect(model, output, n_top=top)


@app.command(epilog=EPILOG, short_help="Does learning the target help on these data?")
def compare(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="Samples and features.")],
    out: Annotated[
        Path, typer.Option("--out", "--output", "-o", metavar="DIR", help="Folder for the results.")
    ],
    labels: Labels = None,
    label: Label = None,
    positive: Positive = None,
    time: Time = None,
    event: Event = None,
    horizon: Horizon = None,
    sample_column: SampleColumn = None,
    task: Task = "classification",
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[,NAME]",
            help="raw, median, mean, normal, uniform, exponential, cauchy, svd, f0, bnd, spav, joint, "
            "crossfit; all if not given.",
        ),
    ] = None,
    cv: CvOption = "3x5",
    inner_cv: InnerCv = "3x5",
    alphas: Alphas = 7,
    smoothnesses: Smoothnesses = 5,
    permutations: Annotated[
        int, typer.Option(metavar="N", min=0, help="Runs with shuffled labels, to see chance.")
    ] = 0,
    n_knots: Knots = None,
    ties: Ties = "average",
    missing: Missing = "error",
    samples: Samples = "auto",
    layer: Layer = None,
    ignore: Ignore = None,
    seed: Seed = 0,
    n_jobs: NJobs = -1,
    scheduler: Scheduler = None,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Does learning the target help on these data? Nested cross-validation and a report.

    Interrupted and started again with the same options, it goes on where it was.
    """
    with running("compare", quiet=quiet, as_json=as_json) as output:
        choice = label_choice(labels, label, positive, time, event, horizon, sample_column, task)
        from suquan.cli._compare import run_compare

        options = {
            "--methods": methods,
            "--cv": f"{cv[0]}x{cv[1]}",
            "--inner-cv": f"{inner_cv[0]}x{inner_cv[1]}",
            "--alphas": alphas,
            "--smoothnesses": smoothnesses,
            "--permutations": permutations or None,
            "--n-knots": n_knots,
            "--ties": ties,
            "--missing": missing,
            "--samples": samples,
            "--layer": layer,
            "--seed": seed,
        }
        cluster = cluster_choice(scheduler, workers)
        command = ["suquan", "compare", str(table), *choice.options(), "--out", str(out)]
        command += [str(part) for pair in options.items() if pair[1] is not None for part in pair]
        command += [part for column in ignore or () for part in ("--ignore", column)]
        command += cluster.options()
        run_compare(
            table,
            out,
            output,
            labels=choice,
            methods=split_names(methods),
            cv=cv,
            inner_cv=inner_cv,
            samples=samples,
            layer=layer,
            ignore=ignore or (),
            ties=ties,
            missing=missing,
            n_knots=n_knots,
            alphas=alphas,
            smoothnesses=smoothnesses,
            permutations=permutations,
            seed=seed,
            n_jobs=n_jobs,
            command=command,
            cluster=cluster,
        )
