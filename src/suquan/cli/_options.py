"""The options of every command: one frozen dataclass per command, from which the command line is made.

A field is an option of the same name; its type, default and help are those of the option. Options that several
commands share are base classes. `suquan.cli._app` makes the commands; the function ``run(options, output)`` of
the command's module gets the object. Nothing heavy is imported here: `suquan --help` waits for this module.
"""
# ruff: noqa: RUF009 (opt and argument make fields)

import re
from dataclasses import MISSING, dataclass, field, fields
from inspect import Parameter, Signature, get_annotations
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_type_hints

from typer import Argument, BadParameter, Option

from suquan._files import refuse_device

RENAMED = {"ignore_columns": "ignore", "label_columns": "label"}  # parameters of the library
PARAMETER = r"""(?<!['"\w/.-])(?P<name>[a-z_]+)(?:=(['"]?)(?P<value>\w+)\2)?(?!['"\w/]|\.\w)"""
NOT_OF_THE_RESULT = ("n_jobs", "quiet", "as_json")
N_JOBS = "Processes or threads; -1: all cores."
Side = Literal["auto", "rows", "columns"]
Ties = Literal["average", "first", "mean_rank"]
Missing = Literal["error", "ignore"]
Task = Literal["classification", "regression"]
Calibration = Literal["sigmoid", "isotonic", "none"]


@dataclass(frozen=True)
class Folds:
    """Repeated folds, written "3x5"."""

    n_folds: int
    n_repeats: int

    def __str__(self) -> str:
        return f"{self.n_folds}x{self.n_repeats}"


def parse_cv(text: Any) -> Folds:
    """Folds and repeats of "3x5"; the repeats may be left out."""
    folds, _, repeats = str(text).lower().replace("×", "x").partition("x")
    try:
        cv = Folds(int(folds), int(repeats or 1))
    except ValueError:
        raise BadParameter(f"wanted folds x repeats, such as 3x5; got {text!r}") from None
    if cv.n_folds < 2 or cv.n_repeats < 1:
        raise BadParameter(f"at least 2 folds and 1 repeat are needed; got {text!r}")
    return cv


def split_names(text: str | None) -> list[str]:
    """Names between commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def opt(default: Any, help: str, metavar: str | None = None, *names: str, **rules: Any) -> Any:
    """Field that is an option; without `names` it is called as the field. MISSING: it must be given."""
    start = ... if default is MISSING else default
    info = Option(start, *names, help=help, metavar=metavar, **rules)
    return field(default=default, metadata={"typer": info})


def argument(help: str, metavar: str) -> Any:
    """Field that is given by its place on the command line."""
    return field(metadata={"typer": Argument(help=help, metavar=metavar), "by_place": True})


@dataclass(frozen=True, kw_only=True)
class Options:
    """What every command takes."""

    FILES = tuple[str, ...]()  # names of files that it writes into its folder

    quiet: bool = opt(False, "Say nothing but errors.", None, "--quiet", "-q")
    as_json: bool = opt(False, "Print one JSON object with the results.", None, "--json")

    def __post_init__(self) -> None:
        """Refuse options that do not go together, with :class:`typer.BadParameter`."""

    @property
    def prints_results(self) -> bool:
        """Whether the results go to standard output, so that nothing else may."""
        return self.as_json

    def check_files(self) -> None:
        """Refuse, before any work, an output that is an input, a device or a pipe."""
        given = {item.name: getattr(self, item.name) for item in fields(self)}
        outputs = [given.pop(name) for name in ("output", "out") if given.get(name)]
        outputs += [outputs[0] / name for name in self.FILES]
        if "target" in given:  # a name, or a file
            given["target"] = Path(given["target"])
        values = chain.from_iterable(v if isinstance(v, list) else [v] for v in given.values())
        inputs = [path for path in values if isinstance(path, Path) and path.exists()]
        for output in outputs:
            refuse_device(output)
            if output.exists() and any(map(output.samefile, inputs)):
                raise ValueError(f"{output} is an input too; give another name for the results.")

    @classmethod
    def own_first(cls) -> list[Any]:
        """The fields: those of the command itself, then those of its base classes."""
        known = {item.name: item for item in fields(cls)}
        names = [name for kind in cls.__mro__ for name in get_annotations(kind)]
        return [known[name] for name in dict.fromkeys(names)]

    @classmethod
    def signature(cls) -> Signature:
        """Of a function that takes the fields, as typer reads it."""
        hints = get_type_hints(cls)
        by_name = Parameter.KEYWORD_ONLY
        return Signature(
            [
                Parameter(f.name, by_name, default=f.metadata["typer"], annotation=hints[f.name])
                for f in cls.own_first()
            ]
        )

    def command(self) -> list[str]:
        """The words of the command line that gives these options; defaults are left out."""
        words = ["suquan", type(self).__name__.lower()]
        for item in sorted(self.own_first(), key=lambda item: "by_place" not in item.metadata):
            value = getattr(self, item.name)
            if value == item.default or item.name in NOT_OF_THE_RESULT:
                continue
            flag = [] if "by_place" in item.metadata else ["--" + item.name.replace("_", "-")]
            for part in value if isinstance(value, list) else [value]:
                words += flag if part is True else [*flag, str(part)]
        return words

    def in_own_words(self, text: str) -> str:
        """Name options where a message of the library names parameters: ``--n-knots`` for ``n_knots``."""
        names = {item.name: item.name for item in fields(self)} | RENAMED

        def option(found: re.Match) -> str:
            name, value = found["name"], found["value"]
            if name not in names or (value is None and "_" not in name):
                return found[0]
            end = "" if value in (None, "True") else f" {value.replace('None', 'none')}"
            return f"--{names[name].replace('_', '-')}{end}"

        return re.sub(PARAMETER, option, text)


@dataclass(frozen=True, kw_only=True)
class TableOptions(Options):
    """How a table is read."""

    samples: Side = opt("auto", "Where the samples lie; auto finds out by names and says so.")
    layer: str | None = opt(None, "Layer of an h5ad file instead of X.")
    ignore: list[str] | None = opt(None, "Column that is not read; may be repeated.", "COLUMN")

    def reading(self) -> dict[str, Any]:
        """The same as arguments of the readers, without where the samples lie."""
        return {"layer": self.layer, "ignore_columns": self.ignore or ()}


@dataclass(frozen=True, kw_only=True)
class RankOptions(Options):
    """How values are ranked."""

    ties: Ties = opt("average", "What equal values of a sample get.")
    missing: Missing = opt("error", "Refuse missing values, or rank the observed ones alone.")


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(Options):
    """Where the work is done, if not in this process."""

    scheduler: str | None = opt(None, "Dask scheduler whose workers do the work.", "ADDRESS")
    workers: int | None = opt(None, "Work on a Dask cluster of N local processes.", "N", min=1)

    def __post_init__(self) -> None:
        if self.scheduler is not None and self.workers is not None:
            raise BadParameter("--scheduler is a cluster that runs, --workers starts one; give one")
        super().__post_init__()

    @property
    def has_cluster(self) -> bool:
        """Whether a cluster was asked for."""
        return self.scheduler is not None or self.workers is not None


@dataclass(frozen=True, kw_only=True)
class OutcomeOptions(Options):
    """Columns of times to event, and what the values of columns mean."""

    time: str | None = opt(None, "Survival: time to event or end of follow-up.", "COLUMN")
    event: str | None = opt(None, "Survival: 1, yes, true or dead where the event came.", "COLUMN")
    event_value: str | None = opt(None, "Value of --event that means an event.", "VALUE")
    strata: str | None = opt(None, "Cox's model: compare within these alone.", "COLUMN")
    negative: list[str] | None = opt(None, "Label of the negative class; may be repeated.", "VALUE")
    negative_rest: bool = opt(False, "All other labels are negative.", None, "--negative-rest")
    na: list[str] | None = opt(None, "One more mark of a missing label; may be repeated.", "VALUE")
    sample_column: str | None = opt(None, "Sample names in --labels; else the first.", "COLUMN")
    allow_unmatched: bool = opt(
        False, "Go on if --labels names fewer than half of the samples.", None, "--allow-unmatched"
    )

    def __post_init__(self) -> None:
        chosen = self.event_value is not None or getattr(self, "positive", None) is not None
        if (self.negative or self.negative_rest) and not chosen:
            raise BadParameter("--negative and --negative-rest need --positive or --event-value")
        if self.event_value is not None and self.event is None:
            raise BadParameter("--event-value is a value in the column --event; give that too")
        super().__post_init__()

    @property
    def label_columns(self) -> list[str]:
        """Names of the columns that are read."""
        columns = [getattr(self, "label", None), self.time, self.event, self.strata]
        return [name for name in columns if name is not None]

    @property
    def rules(self) -> dict[str, Any]:
        """Rules of the functions that select labels."""
        return {"na": self.na or (), "allow_unmatched": self.allow_unmatched}


@dataclass(frozen=True, kw_only=True)
class LabelOptions(OutcomeOptions):
    """Where the labels come from and what they mean."""

    labels: Path | None = opt(None, "CSV or TSV: a column of sample names, and labels.", "FILE")
    label: str | None = opt(None, "Label column, of --labels or of the table itself.", "COLUMN")
    positive: str | None = opt(None, "Label of the positive class.", "VALUE")
    horizon: float | None = opt(
        None, "Survival: event within T against event-free beyond; else Cox's model.", "T"
    )
    task: Task = opt("classification", "Regression for measured values.")

    def __post_init__(self) -> None:
        survival = [part is not None for part in (self.time, self.event)]
        regression, chosen = self.task == "regression", self.positive is not None
        more = self.horizon is not None or self.strata is not None
        if (any(survival) or more) and not all(survival):
            raise BadParameter("survival labels need both --time and --event")
        if self.horizon is not None and self.strata is not None:
            raise BadParameter("--horizon makes classes, --strata is for Cox's model; give one")
        if any(survival) and (self.label is not None or chosen or regression):
            raise BadParameter(
                "--label, --positive and --task regression do not go with --time and --event"
            )
        if not any(survival) and self.label is None:
            raise BadParameter("name the label column with --label, or give --time and --event")
        if chosen and regression:
            raise BadParameter("--positive is for classes; leave it out of a regression")
        if self.sample_column is not None and self.labels is None:
            raise BadParameter("--sample-column is a column of --labels; give that file too")
        super().__post_init__()

    def asked(self) -> dict[str, Any]:
        """What was asked of the labels, for those of the same samples to be found again."""
        names = [*get_annotations(LabelOptions), *get_annotations(OutcomeOptions)]
        given = {name: getattr(self, name) for name in names if name != "labels"}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class ModelOptions(LabelOptions, RankOptions, TableOptions, ClusterOptions):
    """Labelled samples, and how models of them are chosen."""

    table: Path = argument("Samples and features.", "TABLE")
    cv: Any = opt(Folds(3, 5), "F folds, R times.", "FxR", parser=parse_cv)
    groups: str | None = opt(
        None,
        "Column of --labels or of the table; its groups stay together in every fold.",
        "COLUMN",
    )
    leave_out: str | None = opt(
        None, "Column of cohorts; each is the test set once, in place of --cv.", "COLUMN"
    )
    calibration: Calibration = opt(
        "sigmoid", "How scores become probabilities, by out-of-fold scores; none: as they are."
    )
    alphas: int = opt(7, "Strengths of the penalty tried.", "N", min=1)
    smoothnesses: int = opt(5, "Smoothnesses of the target tried.", "N", min=1)
    n_knots: int | None = opt(
        None, "Nodes of a learned target; without: 64, or 16 for matrix and multi.", "N", min=2
    )
    n_targets: int | None = opt(
        None, "multi: most targets; else as many as the problem needs.", "N", min=1
    )
    feature_scaling: Literal["none", "std"] = opt(
        "none", "std: weigh features by their spread among normalised training samples."
    )
    seed: int = opt(0, "Seed of all folds.", "N", min=0)
    n_jobs: int = opt(-1, N_JOBS, "N")

    @property
    def label_columns(self) -> list[str]:
        """Names of the columns that are read, each once."""
        more = [name for name in (self.groups, self.leave_out) if name is not None]
        return list(dict.fromkeys([*super().label_columns, *more]))

    @property
    def calibration_or_none(self) -> str | None:
        """The parameter `calibration` of an estimator."""
        return None if self.calibration == "none" else self.calibration

    def settings(self) -> dict[str, Any]:
        """Parameters of the same names of an estimator that chooses its penalties."""
        names = ("alphas", "smoothnesses", "ties", "missing", "feature_scaling")
        own = {name: getattr(self, name) for name in names}
        return own | {"n_knots": self.n_knots or "auto"}


@dataclass(frozen=True, kw_only=True)
class Demo(Options):
    """The whole job on simulated patients.

    Compares, fits, saves, scores a new patient, reports.
    """

    out: Path = opt(Path("suquan-demo"), "Folder for the results.", "DIR")
    seed: int = opt(0, "Seed of all folds.", "N", min=0)
    n_jobs: int = opt(1, N_JOBS, "N")


@dataclass(frozen=True, kw_only=True)
class Normalize(RankOptions, TableOptions, ClusterOptions):
    """Give all samples the same distribution of values.

    Tables larger than memory are processed in blocks.
    """

    table: Path = argument("Table to normalise.", "IN")
    output: Path = opt(MISSING, "Where to write; its name says the kind.", "OUT", "--output", "-o")
    target: str = opt(
        "median",
        "median, mean, normal, uniform, exponential, cauchy, bimodal; or a file: a saved model, .npy, or text "
        "with one number per line.",
        "NAME|FILE",
    )
    label: list[str] | None = opt(
        None, "Column (or row) of labels, copied as it is; may be repeated.", "COLUMN"
    )
    block_samples: int | None = opt(None, "Samples in memory; else about 32 MiB.", "N", min=1)
    n_jobs: int = opt(-1, N_JOBS, "N")


@dataclass(frozen=True, kw_only=True)
class Reproduce(Options):
    """Run an experiment of the SUQUAN paper, or one of ours.

    Makes tables, figures, and a report, with the paper's numbers beside ours where it has some.
    """

    experiment: Literal[
        "simulated",
        "cifar10",
        "expression",
        "several",
        "calibration",
        "platforms",
        "kendall",
        "survival",
    ] = argument(
        "simulated, cifar10, expression, several, calibration, platforms, kendall or survival.",
        "EXPERIMENT",
    )
    protocol: Literal["quick", "paper"] = opt(
        "quick", "quick: for a laptop; paper: as the paper did, hours or more."
    )
    out: Path | None = opt(None, "Folder of the results; else EXPERIMENT-PROTOCOL.", "FOLDER")
    data: Path | None = opt(None, "Folder with the data; else SUQUAN_DATA names it.", "FOLDER")
    cel: list[Path] | None = opt(
        None, "expression: folder of CEL files, instead of --data; may be repeated.", "FOLDER"
    )
    clinical: list[Path] | None = opt(
        None, "Table with one row per CEL file; one per --cel.", "FILE"
    )
    cdf: list[Path] | None = opt(None, "Layout of the chip; one for all --cel, or each.", "FILE")
    resume: bool = opt(False, "Go on in a folder that was begun before.", None, "--resume")
    stage: Literal["all", "run", "table", "plot"] = opt(
        "all", "One stage alone, from what the stages before it have written."
    )
    changes: list[str] | None = opt(
        None, "Another value for a setting, as JSON; may be repeated.", "NAME=VALUE", "--set"
    )
    n_jobs: int = opt(-1, N_JOBS, "N")

    def __post_init__(self) -> None:
        given = [part is not None for part in (self.cel, self.clinical, self.cdf)]
        if any(given) and self.experiment != "expression":
            raise BadParameter("--cel, --clinical and --cdf are for the experiment expression")
        if any(given) and not all(given):
            raise BadParameter("arrays need all of --cel, --clinical and --cdf")
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class Fit(ModelOptions):
    """Learn a target and a model, and save them in one file."""

    output: Path = opt(MISSING, "File to save, .suquan.", "MODEL", "--output", "-o")
    method: str = opt(
        "crossfit",
        "fixed, svd, f0, bnd, spav, joint, crossfit, matrix, multi; of several the best is chosen.",
        "NAME[,NAME]",
    )
    choose_samples: int = opt(
        5000, "In blocks: samples, drawn at random, on which the penalties are chosen.", "N", min=10
    )


@dataclass(frozen=True, kw_only=True)
class Predict(OutcomeOptions, TableOptions, ClusterOptions):
    """Score samples with a saved model.

    Gives sample, score, probability, predicted label. Features are matched by name; a sample gets the same
    score alone and in a batch.
    """

    model: Path = argument("Saved model.", "MODEL")
    table: Path = argument("Samples to score; one is enough.", "TABLE")
    output: Path | None = opt(
        None, ".csv or .tsv; else standard output.", "SCORES", "--output", "-o"
    )
    max_lost: float = opt(
        0.5, "Most of the sum of |w| that missing features may carry.", "SHARE", min=0.0, max=1.0
    )
    missing: Missing | None = opt(
        None, "Rule for missing values of present features; by default the model's."
    )
    strict: bool = opt(
        False, "Refuse samples that look unlike the training samples.", None, "--strict"
    )
    training: Path | None = opt(
        None, "Training samples: tells how their scores move without the missing features.", "TABLE"
    )
    labels: Path | None = opt(
        None, "Labels of --training, as in fit, or --time and --event; else the table's.", "FILE"
    )

    def __post_init__(self) -> None:
        needed = [part is not None for part in (self.time, self.event)]
        given = [part is not None for part in (self.sample_column, self.strata, self.na)]
        if any(needed + given) and not all(needed):
            raise BadParameter("the concordance needs both --time and --event")
        if self.labels is not None and self.training is None and not all(needed):
            raise BadParameter(
                "--labels are those of --training, or hold --time and --event; give one of these too"
            )
        super().__post_init__()

    @property
    def label_columns(self) -> list[str]:
        """Names of the columns that are read from the table itself."""
        return [] if self.labels is not None else super().label_columns

    @property
    def prints_results(self) -> bool:
        """Without a file the scores go to standard output."""
        return self.as_json or self.output is None


@dataclass(frozen=True, kw_only=True)
class Inspect(Options):
    """Show what a saved model holds."""

    model: Path = argument("Saved model.", "MODEL")
    top: int = opt(20, "Features to show.", "N", min=0)


@dataclass(frozen=True, kw_only=True)
class Compare(ModelOptions):
    """Find out whether learning the target helps on these data.

    Nested cross-validation and a report. Interrupted and started again with the same options, it goes on
    where it was.
    """

    TABLES = ("folds", "summary", "tests", "contrasts", "permutations", "reliability", "cohorts")
    FILES = ("model.suquan", "report.html", *map("{}.csv".format, TABLES))

    out: Path = opt(MISSING, "Folder for the results.", "DIR", "--out", "--output", "-o")
    methods: str | None = opt(
        None,
        "raw, median, mean, normal, uniform, exponential, cauchy, svd, f0, bnd, spav, joint, crossfit, matrix, "
        "multi, start, forest, forest_raw; else raw, median, uniform, normal, crossfit and the forests.",
        "NAME[,NAME]",
    )
    inner_cv: Any = opt(Folds(3, 5), "The same for choosing the penalties.", "FxR", parser=parse_cv)
    permutations: int = opt(0, "Runs with shuffled labels, to see chance.", "N", min=0)


@dataclass(frozen=True, kw_only=True)
class Export(Options):
    """Write a saved model as plain files.

    Targets and coefficients as CSV, the rest as JSON, with scorers in R and NumPy that need no suquan.
    """

    model: Path = argument("Saved model.", "MODEL")
    out: Path = opt(MISSING, "Folder to make; it must not exist.", "DIR", "--out", "--output", "-o")


COMMANDS: tuple[type[Options], ...] = (
    *(Demo, Normalize, Reproduce),
    *(Fit, Predict, Inspect, Export, Compare),
)
