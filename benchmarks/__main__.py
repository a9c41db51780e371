"""Run the benchmark scripts one after another, each in a process of its own."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
APART = ("dask",)  # needs gigabytes of disk: `make bench-dask`


def main() -> None:
    names = sorted(path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"of {', '.join(names)}; all but dask"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes; only see that they run")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(names))
    if unknown:
        parser.error(f"unknown benchmark {', '.join(unknown)}; known: {', '.join(names)}")
    failed = []
    for name in arguments.names or [name for name in names if name not in APART]:
        print(f"== {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.bench_{name}"]
        command += ["--quick"] if arguments.quick else []
        if subprocess.run(command, cwd=FOLDER.parent).returncode:
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
