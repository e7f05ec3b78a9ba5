"""Builds the compiled kernels where a C compiler is at hand.

Each kernel is a plain Python module with a `.pxd` beside it that gives the types. Without
Cython or a compiler the same module runs uncompiled: slower, otherwise the same.
"""

import os
from pathlib import Path

from setuptools import Extension, setup

KERNELS = [path.with_suffix(".py") for path in sorted(Path("src/moldau").rglob("*.pxd"))]


def extensions() -> list[Extension]:
    if os.environ.get("MOLDAU_PURE_PYTHON"):
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    modules = [
        Extension(
            ".".join(path.with_suffix("").parts[1:]),
            [str(path)],
            extra_compile_args=["-O3"],
            optional=True,
        )
        for path in KERNELS
    ]
    directives = {
        "language_level": "3",
        "boundscheck": False,
        "wraparound": False,
        "cdivision": True,
        "initializedcheck": False,
        "annotation_typing": False,
    }
    return cythonize(modules, compiler_directives=directives, build_dir="build/cython")


setup(ext_modules=extensions())
