"""Builds the compiled kernels where a C compiler is at hand.

Each kernel is a plain Python module with a `.pxd` beside it that gives the types. Without
Cython or a compiler the same module runs uncompiled: slower, otherwise the same. Set
MOLDAU_PURE_PYTHON=1 to leave the kernels uncompiled on purpose, MOLDAU_SANITIZE=1 to have every
place they read and write checked by AddressSanitizer (`make sanitize`).
"""

import os
import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import CCompilerError, ExecError, PlatformError

KERNELS = [path.with_suffix(".py") for path in sorted(Path("src/moldau").rglob("*.pxd"))]
DIRECTIVES = {
    "language_level": "3",
    # The types stand in the .pxd; annotations are for readers and type checkers.
    "annotation_typing": False,
    # A kernel checks its positions itself, in Python and in C alike.
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
}


SANITIZED = ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address"]


class BuildWhatCompiles(build_ext):
    """A missing or broken compiler costs speed, never the installation."""

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except (CCompilerError, ExecError, PlatformError, OSError) as error:
            ext.optional = True
            self.warn(f"{ext.name} will run uncompiled, many times slower: {error}")


LAID_OUT = ("bin", "config", "examples", "services")
"""What `moldau init` gives to users: it travels in the wheel as `moldau/starter`."""


class BuildWithStarter(build_py):
    """Adds what stands beside the package in the repository. Nothing of it is ever imported."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        starter = Path(self.build_lib) / "moldau" / "starter"
        shutil.rmtree(starter, ignore_errors=True)
        for name in LAID_OUT:
            # Links become files: a wheel has none.
            ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "data*")
            shutil.copytree(name, starter / name, ignore=ignored)


def kernels() -> list[Extension]:
    if os.environ.get("MOLDAU_PURE_PYTHON"):
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    is_sanitized = bool(os.environ.get("MOLDAU_SANITIZE"))
    # No -march: what is built here may run on another machine.
    modules = [
        Extension(
            ".".join(path.with_suffix("").parts[1:]),
            [path.as_posix()],
            extra_compile_args=SANITIZED if is_sanitized else ["-O3", "-g0"],
            extra_link_args=["-fsanitize=address"] if is_sanitized else [],
            optional=True,
        )
        for path in KERNELS
    ]
    return cythonize(modules, compiler_directives=DIRECTIVES, build_dir="build/cython")


setup(
    ext_modules=kernels(),
    cmdclass={"build_ext": BuildWhatCompiles, "build_py": BuildWithStarter},
)
