"""The options of every command: one frozen dataclass per command, from which the command line is made.

A field is an option of the same name; its type, default and help are those of the option. Options that several
commands share are base classes. `suquan.cli._app` makes the commands; the function ``run(options, output)`` of
the command's module gets the object. Nothing heavy is imported here: `suquan --help` waits for this module.
"""
# ruff: noqa: RUF009 (opt and argument make fields)

import re
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields
from inspect import Parameter, Signature, get_annotations
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_type_hints

from typer import Argument, BadParameter, Option

from suquan.files.disk import refuse_device

RENAMED = {"ignore_columns": "ignore", "label_columns": "label"}  # parameters of the library
PARAMETER = r"""(?<!['"\w/.-])(?P<name>[a-z_]+)(?:=(['"]?)(?P<value>\w+)\2)?(?!['"\w/]|\.\w)"""
NOT_OF_THE_RESULT = ("n_jobs", "quiet", "as_json")
N_JOBS = "Processes or threads; -1: all cores."
Side = Literal["auto", "rows", "columns"]
Ties = Literal["average", "first", "mean_rank"]
Missing = Literal["error", "ignore"]
Task = Literal["classification", "regression"]
Calibration = Literal["sigmoid", "isotonic", "none"]
Scaling = Literal["none", "std"]


@dataclass(frozen=True)
class Folds:
    """Repeated folds, written "3x5"."""

    n_folds: int
    n_repeats: int = 1

    def __str__(self) -> str:
        return f"{self.n_folds}x{self.n_repeats}"

    @classmethod
    def parse(cls, text: Any) -> "Folds":
        """Read "3x5"; the repeats may be left out."""
        try:
            cv = cls(*map(int, str(text).lower().replace("×", "x").split("x")))
        except (TypeError, ValueError):
            raise BadParameter(f"wanted folds x repeats, such as 3x5; got {text!r}") from None
        if cv.n_folds < 2 or cv.n_repeats < 1:
            raise BadParameter(f"at least 2 folds and 1 repeat are needed; got {text!r}")
        return cv


def opt(default: Any, help: str, metavar: str | None = None, *names: str, **rules: Any) -> Any:
    """Make a field that is an option; without `names` it is called as the field. MISSING: it must be given."""
    start = ... if default is MISSING else default
    info = Option(start, *names, help=help, metavar=metavar, **rules)
    return field(default=default, metadata={"typer": info})


def argument(help: str, metavar: str) -> Any:
    """Make a field that is given by its place on the command line."""
    return field(metadata={"typer": Argument(help=help, metavar=metavar), "by_place": True})


@dataclass(frozen=True, kw_only=True)
class Options:
    """What every command takes."""

    FILES = tuple[str, ...]()  # names of files that it writes into its folder

    quiet: bool = opt(False, "Say nothing but errors.", None, "--quiet", "-q")
    as_json: bool = opt(False, "Print one JSON object with the results.", None, "--json")

    def __post_init__(self) -> None:
        """Refuse options that do not go together."""
        for is_wrong, told in self.mistakes():
            if is_wrong:
                raise BadParameter(told)

    def mistakes(self) -> Iterator[tuple[bool, str]]:
        """Give what would be wrong usage: whether it is the case, and the message."""
        yield from ()

    @property
    def prints_results(self) -> bool:
        """Whether results go to standard output, so that nothing else may; scores do without a file."""
        return self.as_json or getattr(self, "output", self) is None

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
        """List the fields: those of the command itself, then those of its base classes."""
        known = {item.name: item for item in fields(cls)}
        names = [name for kind in cls.__mro__ for name in get_annotations(kind)]
        return [known[name] for name in dict.fromkeys(names)]

    @classmethod
    def signature(cls) -> Signature:
        """Make the signature of a function that takes the fields, as typer reads it."""
        hints = get_type_hints(cls)
        parts = [(f.name, f.metadata["typer"], hints[f.name]) for f in cls.own_first()]
        by_name = Parameter.KEYWORD_ONLY
        return Signature([Parameter(n, by_name, default=d, annotation=t) for n, d, t in parts])

    def command(self) -> list[str]:
        """List the words of the command line that gives these options; defaults are left out."""
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
        """Give the same as arguments of the readers, without where the samples lie."""
        return {"layer": self.layer, "ignore_columns": self.ignore or ()}


@dataclass(frozen=True, kw_only=True)
class RankOptions(Options):
    """How values are ranked."""

    ties: Ties = opt("average", "What equal values of a sample get.")
    missing: Missing = opt("error", "Refuse missing values, or rank the observed ones alone.")


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

    def mistakes(self) -> Iterator[tuple[bool, str]]:
        """Refuse values that nothing asks for."""
        chosen = self.event_value is not None or getattr(self, "positive", None) is not None
        against, event = bool(self.negative) or self.negative_rest, self.event is not None
        yield (
            against and not chosen,
            "--negative and --negative-rest need --positive or --event-value",
        )
        wanted = self.event_value is not None and not event
        yield wanted, "--event-value is a value in the column --event; give that too"

    @property
    def own_columns(self) -> list[str]:
        """Label columns to read from the table itself, each once; none where --labels holds them."""
        if getattr(self, "labels", None) is not None:
            return []
        names = ("label", "time", "event", "strata", "groups", "leave_out")
        columns = [getattr(self, name, None) for name in names]
        return list(dict.fromkeys(column for column in columns if column is not None))

    def asked(self) -> dict[str, Any]:
        """Give what was asked of the labels, for those of the same samples to be found again."""
        names = [*get_annotations(LabelOptions), *get_annotations(OutcomeOptions)]
        given = {name: getattr(self, name) for name in names if name != "labels"}
        return {name: value for name, value in given.items() if value is not None}


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

    def mistakes(self) -> Iterator[tuple[bool, str]]:
        """Refuse labels of two kinds, or of none."""
        parts = [self.time is not None, self.event is not None]
        cox, horizon = self.strata is not None, self.horizon is not None
        label, chosen = self.label is not None, self.positive is not None
        regression, times = self.task == "regression", any(parts)
        needed = (times or cox or horizon) and not all(parts)
        yield needed, "survival labels need both --time and --event"
        yield horizon and cox, "--horizon makes classes, --strata is for Cox's model; give one"
        both = times and (label or chosen or regression)
        yield both, "--label, --positive and --task regression do not go with --time and --event"
        nothing = not times and not label
        yield nothing, "name the label column with --label, or give --time and --event"
        yield chosen and regression, "--positive is for classes; leave it out of a regression"
        no_file = self.sample_column is not None and self.labels is None
        yield no_file, "--sample-column is a column of --labels; give that file too"
        yield from super().mistakes()


@dataclass(frozen=True, kw_only=True)
class ModelOptions(LabelOptions, RankOptions, TableOptions):
    """Labelled samples, and how models of them are chosen."""

    table: Path = argument("Samples and features.", "TABLE")
    cv: Any = opt(Folds(3, 5), "F folds, R times.", "FxR", parser=Folds.parse)
    groups: str | None = opt(None, "Column whose groups stay together in every fold.", "COLUMN")
    leave_out: str | None = opt(None, "Column of cohorts, each tested once; no --cv.", "COLUMN")
    calibration: Calibration = opt("sigmoid", "How scores become probabilities; none: as they are.")
    alphas: int = opt(7, "Strengths of the penalty tried.", "N", min=1)
    smoothnesses: int = opt(5, "Smoothnesses of the target tried.", "N", min=1)
    n_knots: int | None = opt(
        None, "Nodes of a learned target; without: 64, or 16 for matrix and multi.", "N", min=2
    )
    n_targets: int | None = opt(None, "multi: most targets; else as many as needed.", "N", min=1)
    feature_scaling: Scaling = opt("none", "std: weigh features by their spread, normalised.")
    seed: int = opt(0, "Seed of all folds.", "N", min=0)
    n_jobs: int = opt(-1, N_JOBS, "N")

    @property
    def calibration_or_none(self) -> str | None:
        """The parameter `calibration` of an estimator."""
        return None if self.calibration == "none" else self.calibration

    def settings(self) -> dict[str, Any]:
        """Give parameters of the same names of an estimator that chooses its penalties."""
        names = ("alphas", "smoothnesses", "ties", "missing", "n_knots", "feature_scaling")
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Demo(Options):
    """The whole job on simulated patients.

    Compares, fits, saves, scores a new patient, reports.
    """

    out: Path = opt(Path("suquan-demo"), "Folder for the results.", "DIR")
    seed: int = opt(0, "Seed of all folds.", "N", min=0)
    n_jobs: int = opt(1, N_JOBS, "N")


@dataclass(frozen=True, kw_only=True)
class Normalize(RankOptions, TableOptions):
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
    label: list[str] | None = opt(None, "Labels, copied as they are; may be repeated.", "COLUMN")
    block_samples: int | None = opt(None, "Samples in memory; else about 32 MiB.", "N", min=1)
    n_jobs: int = opt(-1, N_JOBS, "N")


@dataclass(frozen=True, kw_only=True)
class Fit(ModelOptions):
    """Learn a target and a model, and save them in one file."""

    output: Path = opt(MISSING, "File to save, .suquan.", "MODEL", "--output", "-o")
    method: str = opt(
        "crossfit",
        "fixed, svd, f0, bnd, spav, joint, crossfit, matrix, multi; of several the best is chosen.",
        "NAME[,NAME]",
    )


@dataclass(frozen=True, kw_only=True)
class Predict(OutcomeOptions, TableOptions):
    """Score samples with a saved model.

    Gives sample, score, probability, predicted label. Features are matched by name; a sample gets the same
    score alone and in a batch.
    """

    model: Path = argument("Saved model.", "MODEL")
    table: Path = argument("Samples to score; one is enough.", "TABLE")
    output: Path | None = opt(None, ".csv, .tsv; else standard output.", "SCORES", "--output", "-o")
    max_lost: float = opt(
        0.5, "Most of the sum of |w| that missing features may carry.", "SHARE", min=0.0, max=1.0
    )
    missing: Missing | None = opt(None, "Rule for missing values; else the model's.")
    strict: bool = opt(False, "Refuse samples unlike the training samples.", None, "--strict")
    training: Path | None = opt(None, "Training samples: what do missing features cost?", "TABLE")
    labels: Path | None = opt(
        None, "Labels of --training, as in fit, or --time and --event; else the table's.", "FILE"
    )

    def mistakes(self) -> Iterator[tuple[bool, str]]:
        """Refuse labels that nothing is compared with."""
        parts = [self.time is not None, self.event is not None]
        given = [part is not None for part in (self.sample_column, self.strata, self.na)]
        yield any(parts + given) and not all(parts), "the concordance needs both --time and --event"
        no_use = self.labels is not None and self.training is None and not all(parts)
        what = "--labels are those of --training, or hold --time and --event"
        yield no_use, f"{what}; give one of these too"
        yield from super().mistakes()


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
    inner_cv: Any = opt(Folds(3, 5), "To choose the penalties.", "FxR", parser=Folds.parse)
    permutations: int = opt(0, "Runs with shuffled labels, to see chance.", "N", min=0)


@dataclass(frozen=True, kw_only=True)
class Export(Options):
    """Write a saved model as plain files.

    Targets and coefficients as CSV, the rest as JSON, with scorers in R and NumPy that need no suquan.
    """

    model: Path = argument("Saved model.", "MODEL")
    out: Path = opt(MISSING, "Folder to make; it must not exist.", "DIR", "--out", "--output", "-o")


COMMANDS: tuple[type[Options], ...] = (
    *(Demo, Normalize),
    *(Fit, Predict, Inspect, Export, Compare),
)
