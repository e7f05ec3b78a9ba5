"""Draws the pictures of ARCHITECTURE.md from the tables of that page; run by `make docs`.

`layers.svg` is the table of layers, `walks.svg` the table of walks. A walk that names a file which
is not there, or another number of files than it says, is a fault.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

PROJECT = Path(__file__).parent.parent
PAGE = PROJECT / "ARCHITECTURE.md"
SOURCE = PROJECT / "src" / "moldau"
PICTURES = Path(__file__).parent / "pictures"

INK, QUIET, LINE = "#24323d", "#667784", "#b9c4cc"
FONT = "font-family=\"'Segoe UI', 'Helvetica Neue', Helvetica, Arial, sans-serif\""
RULES = "A module may import only from lower lines. * may also start a broker or read its files."
LETTER = 0.56
"""About how wide a letter is, as a part of the font's size."""


@dataclass(frozen=True)
class Kind:
    """Packages that play the same part have the same colour."""

    title: str
    fill: str
    edge: str
    packages: frozenset[str]


def kind(title: str, fill: str, edge: str, packages: str) -> Kind:
    return Kind(title, fill, edge, frozenset(packages.split()))


KINDS = (
    kind("sockets and composition", "#eef0f2", "#9aa7b1", "net broker"),
    kind("one function per API", "#e3edf7", "#86a9cc", "handlers"),
    kind("runs the machines", "#ece7f5", "#a593c9", "engine coordinators cluster"),
    kind("pure machines", "#e4f2e7", "#86b894", "controller groups transactions"),
    kind("replicas", "#fbf1dd", "#d3b06b", "replication"),
    kind("disk and tree", "#f8e7df", "#d09b80", "storage metadata"),
)
WORDS = Kind("words that everybody uses", "#ffffff", "#b9c4cc", frozenset())
EDGES = Kind("above the protocol boundary", "#e6f3f3", "#82b5b5", frozenset())


def kind_of(package: str, otherwise: Kind) -> Kind:
    return next((each for each in KINDS if package in each.packages), otherwise)


@dataclass
class Drawing:
    width: int
    height: int
    parts: list[str] = field(default_factory=list)

    def box(
        self, x: float, y: float, width: float, height: float, look: Kind, dash: str = ""
    ) -> None:
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5"'
            f' fill="{look.fill}" stroke="{look.edge}"{dashed}/>'
        )

    def text(
        self, x: float, y: float, words: str, size: int, ink: str = INK, more: str = ""
    ) -> None:
        look = f'font-size="{size}" fill="{ink}"{more}'
        self.parts.append(f'<text x="{x:g}" y="{y:g}" {look}>{escape(words)}</text>')

    def line(self, x: float, y: float, x2: float, y2: float, dash: str = "") -> None:
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<line x1="{x:g}" y1="{y:g}" x2="{x2:g}" y2="{y2:g}" stroke="{LINE}"{dashed}/>'
        )

    def svg(self, title: str) -> str:
        size = f'width="{self.width}" height="{self.height}"'
        opening = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}'
            f' viewBox="0 0 {self.width} {self.height}" {FONT} role="img">'
        )
        note = "<!-- Written by `make docs` from the tables of ARCHITECTURE.md. -->"
        ground = f'<rect {size} fill="#ffffff"/>'
        lines = [opening, note, f"<title>{escape(title)}</title>", ground, *self.parts, "</svg>"]
        return "\n".join(lines) + "\n"


def pictures() -> dict[Path, str]:
    """Every picture by its path."""
    page = PAGE.read_text(encoding="utf-8")
    return {
        PICTURES / "layers.svg": layers_picture(page),
        PICTURES / "walks.svg": walks_picture(page),
    }


def layers_picture(page: str) -> str:
    """One band a line of the table, what it is for beside it; the boundary is a dashed line."""
    table = re.search(r"## Layers.*?```\n(.*?)```", page, re.DOTALL)
    assert table is not None, "ARCHITECTURE.md has no table of layers"
    rows = [re.split(r" {2,}", line.strip(), maxsplit=1) for line in table[1].strip().splitlines()]
    row_height, left, box_height = 40, 24, 28
    drawing = Drawing(980, 52 + row_height * len(rows))
    drawing.text(left, 28, RULES, 13, QUIET)
    is_above = True
    for number, row in enumerate(rows):
        y = 44 + number * row_height
        if row[0].startswith("---"):
            is_above = False
            drawing.line(left, y + 14, 418, y + 14, dash="6 4")
            drawing.text(430, y + 18, row[0].strip("- "), 13, INK)
            drawing.line(588, y + 14, 956, y + 14, dash="6 4")
            continue
        x: float = left
        for name in (each.strip() for each in row[0].split("|")):
            look = EDGES if is_above else kind_of(name, WORDS)
            width = len(name) * 14 * LETTER + 26
            drawing.box(x, y, width, box_height, look)
            middle = ' text-anchor="middle" font-weight="600"'
            drawing.text(x + width / 2, y + 19, name, 14, more=middle)
            x += width + 8
        drawing.text(430, y + 19, row[1].replace("`", "").replace(" | ", "; "), 13, QUIET)
    return drawing.svg("The layers of Moldau")


@dataclass
class Walk:
    name: str
    steps: list[str]
    """Paths below src/moldau, without the ending."""
    also: list[str]
    """Where it goes in a case that the table names."""


def walks(page: str) -> list[Walk]:
    table = page[page.index("### The walks, file by file") :]
    rows = re.findall(r"^\| ([^|]+) \((\d+)\) \| (.+) \|$", table, re.MULTILINE)
    found = []
    for name, count, cell in rows:
        main, _, rest = cell.partition(";")
        steps = paths_of(re.findall(r"`([^`]+)`", main))
        assert len(steps) == int(count), f"{name} has {len(steps)} files and says {count}"
        found.append(Walk(name, steps, paths_of(re.findall(r"`([^`]+)`", rest))))
    return found


def paths_of(names: list[str]) -> list[str]:
    """A name without a package stands in the folder of the one before it, or in a room of that."""
    folder, found = "", []
    for name in names:
        name = name.removeprefix("…/")
        whole = name if (SOURCE / f"{name}.py").exists() else f"{folder}/{name}"
        assert (SOURCE / f"{whole}.py").exists(), f"no file is called {whole}.py"
        folder = whole.rpartition("/")[0]
        found.append(whole)
    return found


def walks_picture(page: str) -> str:
    """A column a walk: its files from top to bottom, in the colours of the layers."""
    found = walks(page)
    column, step, box_height, left, top = 196, 42, 33, 16, 88
    longest = max(len(walk.steps) + len(walk.also) for walk in found)
    drawing = Drawing(left * 2 + column * len(found) - 12, top + longest * step + 30)
    legend(drawing, left)
    for number, walk in enumerate(found):
        x = left + number * column
        drawing.text(x, top - 20, walk.name, 15, more=' font-weight="600"')
        right = x + column - 12
        drawing.text(right, top - 20, f"{len(walk.steps)} files", 11, QUIET, ' text-anchor="end"')
        for place, path in enumerate(walk.steps + walk.also):
            y = top + place * step + (16 if place >= len(walk.steps) else 0)
            if 0 < place < len(walk.steps):
                drawing.line(x + 92, y - step + box_height, x + 92, y)
            if place == len(walk.steps):
                drawing.text(x, y - 6, "in some cases, or in passing", 10, QUIET)
            folder, _, name = path.rpartition("/")
            dash = "4 3" if place >= len(walk.steps) else ""
            drawing.box(x, y, column - 12, box_height, kind_of(path.partition("/")[0], WORDS), dash)
            drawing.text(x + 8, y + 13, f"{folder}/", 10, QUIET)
            drawing.text(x + 8, y + 27, name, 13)
    return drawing.svg("The walks of Moldau, file by file")


def legend(drawing: Drawing, x: float) -> None:
    for each in KINDS:
        drawing.box(x, 16, 14, 14, each)
        drawing.text(x + 20, 27, each.title, 12, QUIET)
        x += 20 + len(each.title) * 12 * LETTER + 22
