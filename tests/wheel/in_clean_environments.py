"""The built wheel and sdist, each installed into a new virtual environment and tried there.

`make dist-test` runs it: the wheel, the sdist with a compiler and without one, where dependencies
come from the package index that pip is set up for. `--python` names further interpreters; for those
the sdist is built anew.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

FIRST_STEPS = Path(__file__).with_name("first_steps.py").resolve()
NO_COMPILER = {"CC": "/nowhere/cc", "CXX": "/nowhere/c++"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dist", type=Path, help="the folder with the wheel and the sdist")
    parser.add_argument("--python", action="append", default=[], help="another interpreter")
    given = parser.parse_args()
    (sdist,) = given.dist.resolve().glob("moldau-*.tar.gz")
    (wheel,) = given.dist.resolve().glob("moldau-*.whl")
    try_out("wheel", sys.executable, wheel, {})
    try_out("sdist", sys.executable, sdist, {}, compiled="1")
    try_out("sdist, no compiler", sys.executable, sdist, NO_COMPILER, compiled="0")
    for python in given.python:
        try_out(f"sdist, {python}", python, sdist, {}, compiled="1")
    return 0


def try_out(
    what: str, python: str, package: Path, build: dict[str, str], compiled: str = ""
) -> None:
    clean = {
        key: os.environ[key] for key in os.environ if not key.startswith(("PYTHON", "VIRTUAL"))
    }
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True, env=clean)
        inside = str(Path(folder) / "bin" / "python")
        pip = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-cache-dir", str(package)], check=True, env={**clean, **build})
        expected = {"MOLDAU_EXPECT_COMPILED": compiled} if compiled else {}
        tried = subprocess.run(
            [inside, str(FIRST_STEPS)],
            check=True,
            env={**clean, **expected},
            cwd=folder,
            capture_output=True,
            text=True,
        )
    print(f"{what}: {tried.stdout.strip()}", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as fault:
        sys.exit(f"{fault}\n{fault.stdout or ''}{fault.stderr or ''}")
