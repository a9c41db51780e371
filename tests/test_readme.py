"""The examples in the README and in the pages of the documentation run as they stand."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


@pytest.mark.parametrize(
    "page", ["README.md", "docs/files.md", "docs/dask.md", "docs/experiments.md"]
)
def test_examples_run(page):
    examples = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    assert examples
    names: dict = {}
    for example in examples:  # a later one may use what an earlier one made
        exec(compile(example, page, "exec"), names)


def test_readme_has_the_markers_that_the_benchmarks_fill():
    text = README.read_text(encoding="utf-8")
    assert text.count("<!-- bench:start -->") == 1
    assert text.index("<!-- bench:start -->") < text.index("<!-- bench:end -->")
