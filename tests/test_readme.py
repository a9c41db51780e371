"""The example in the README runs as it stands."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_example_in_the_readme_runs():
    examples = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert examples
    for example in examples:
        exec(compile(example, str(README), "exec"), {})


def test_readme_has_the_markers_that_the_benchmarks_fill():
    text = README.read_text(encoding="utf-8")
    assert text.count("<!-- bench:start -->") == 1
    assert text.index("<!-- bench:start -->") < text.index("<!-- bench:end -->")
