"""``suquan export``: a model file in, a folder of plain files and scorers out."""

from suquan.cli._options import Export
from suquan.cli._output import Output, jsonable
from suquan.cli._predict import class_names
from suquan.export import export_model
from suquan.io import TableError
from suquan.persistence import read_model


def run(options: Export, output: Output) -> None:
    """Write the model of a file to a new folder."""
    parent = options.out.resolve().parent
    if not parent.is_dir():
        raise TableError(f"{options.out}: there is no folder {parent}; make it first")
    file = read_model(options.model)
    names, summary = class_names(file) or None, jsonable(file.summary)
    folder = export_model(file.estimator, options.out, class_names=names, summary=summary)
    files = sorted(path.name for path in folder.iterdir())
    output.say(f"{folder}: {', '.join(files)}")
    output.say(f"score: Rscript {folder / 'score.R'} TABLE.csv SCORES.csv")
    output.keep(folder=str(folder), files=files)
