"""The examples in the README run as they stand."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_examples_in_the_readme_run():
    examples = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert examples
    names: dict = {}
    for example in examples:  # a later one may use what an earlier one made
        exec(compile(example, str(README), "exec"), names)


def test_readme_has_the_markers_that_the_benchmarks_fill():
    text = README.read_text(encoding="utf-8")
    assert text.count("<!-- bench:start -->") == 1
    assert text.index("<!-- bench:start -->") < text.index("<!-- bench:end -->")
