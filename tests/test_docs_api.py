"""The API reference has every public name, and no other."""

import importlib
import pkgutil
import re
from pathlib import Path

import suquan

PAGE = Path(__file__).parents[1] / "docs" / "api" / "index.rst"
# The command line has pages of its own.
ELSEWHERE = {"suquan.cli"}


def names_on_the_page():
    """Objects of the reference by their names; a name that is not there fails."""
    found, module = {}, None
    for line in PAGE.read_text("utf-8").splitlines():
        if match := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            module = match[1]
        elif match := re.fullmatch(r"   (\w+)", line):
            name = f"{module}.{match[1]}"
            assert name not in found, f"{name} is there twice"
            found[name] = getattr(importlib.import_module(module), match[1])
    return found


def public_names():
    """Objects in the lists of public names of the package and its modules, by their names."""
    modules = [
        part.name
        for part in pkgutil.walk_packages(suquan.__path__, "suquan.")
        if not any(word.startswith("_") for word in part.name.split("."))
    ]
    for name in ["suquan", *modules]:
        module = importlib.import_module(name)
        if name not in ELSEWHERE:
            for key in getattr(module, "__all__", ()):
                yield f"{name}.{key}", getattr(module, key)


def test_the_reference_has_every_public_name_and_no_other():
    page, public = names_on_the_page(), dict(public_names())
    del public["suquan.__version__"]
    described = {id(value) for value in page.values()}
    assert {name for name, value in public.items() if id(value) not in described} == set()
    assert len(described) == len(page)  # one place for each
    assert {name for name in page if name not in public} == set()


def test_every_public_object_says_what_it_is():
    assert all(value.__doc__ for value in names_on_the_page().values())
