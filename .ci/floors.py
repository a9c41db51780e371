"""Print constraints for pip: the oldest release of every dependency that pyproject.toml allows."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
groups = [project["dependencies"], *project["optional-dependencies"].values()]
for requirement in sorted({requirement for group in groups for requirement in group}):
    name, floor = re.fullmatch(r"([\w.-]+)(?:\[.*\])?>=([\d.]+)", requirement).groups()
    print(f"{name}=={floor}")
