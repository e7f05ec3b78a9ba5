"""What browsers are given that others wrote: each file with its origin; a test checks the sums."""

from __future__ import annotations

from typing import NamedTuple


class Vendored(NamedTuple):
    package: str
    """As the npm registry names it."""
    version: str
    licence: str
    licence_file: str
    sha256: str


VENDORED = {
    "htmx.min.js": Vendored(
        "htmx.org",
        "2.0.11",
        "0BSD",
        "htmx.LICENSE",
        "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717",
    ),
    "idiomorph-ext.min.js": Vendored(
        "idiomorph",
        "0.8.0",
        "0BSD",
        "idiomorph.LICENSE",
        "5811b9a7eda14878b7dab4378bf60432e1bb6f11fcfb970cc26540642650181e",
    ),
}
