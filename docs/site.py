"""Makes what MkDocs reads of the pages: `python -m docs.site` writes build/site-pages and
build/mkdocs.yml, `make docs-site` builds the site from them.

Pages link to each other and to files of the project as a checkout has them. On the site the pages
of the project's root stand beside those of docs/, so links lose their `../`; what is no page is
copied where a link names it.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

PROJECT = Path(__file__).parent.parent
DOCS, BUILD = PROJECT / "docs", PROJECT / "build"
PAGES = BUILD / "site-pages"
ROOT_PAGES = ("ARCHITECTURE", "CHANGELOG", "CODE_OF_CONDUCT", "CONTRIBUTING", "SECURITY")
LINK = re.compile(r"(\]\()((?:\.\./)*)([^)\s:#]*)(#[^)\s]*)?(\))")
LEARN = ("tutorial", "glossary", "scope")
PROGRAM = ("consuming", "producing", "client", "producer", "tables", "recovery", "testing")
OPERATE = (
    *("commands", "services", "tuning", "cluster", "security", "quotas", "console", "monitoring"),
    *("logging", "backup", "snapshots", "mirroring", "troubleshooting"),
)
EXPLAIN = ("reliability", "differences", "benchmarks", "ARCHITECTURE", "simulation")
BUILDING = ("testing-harnesses", "testing-histories", "style", "CONTRIBUTING", "CODE_OF_CONDUCT")


def main() -> int:
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(DOCS, PAGES, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    (PAGES / "examples").mkdir()
    for name in ROOT_PAGES:
        shutil.copy(PROJECT / f"{name}.md", PAGES)
    shutil.copy(PROJECT / "examples" / "README.md", PAGES / "examples")
    for page in sorted(PAGES.rglob("*.md")):
        page.write_text(linked(page), encoding="utf-8")
    # JSON is YAML, and needs no package to be written.
    config = {"INHERIT": "../mkdocs.yml", "nav": navigation()}
    (BUILD / "mkdocs.yml").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    return 0


def linked(page: Path) -> str:
    """The page with its links as they are on the site."""
    on_site = page.relative_to(PAGES)
    in_root = on_site.stem in ROOT_PAGES and len(on_site.parts) == 1
    here = PROJECT if in_root else PROJECT / "examples" if on_site.parts[0] == "examples" else DOCS
    folder = here if on_site.parts[0] == "examples" else (here / on_site).parent

    def changed(match: re.Match[str]) -> str:
        before, _, target, heading, after = match.groups()
        if not target:
            return match[0]
        path = (folder / match[2] / target).resolve()
        place = placed(path)
        if place is None:
            return match[0]
        up = "../" * (len(on_site.parts) - 1)
        return f"{before}{up}{place.as_posix()}{heading or ''}{after}"

    return LINK.sub(changed, page.read_text(encoding="utf-8"))


def placed(path: Path) -> Path | None:
    """Where something of the project is on the site; files that are no pages come along."""
    if not path.is_relative_to(PROJECT) or not path.exists():
        return None
    inside = path.relative_to(PROJECT)
    if path.is_dir():
        pages = sorted(path.glob("*.md"))
        return placed(pages[0]) if pages and inside.parts[0] == "docs" else None
    if inside.parts[0] == "docs":
        return inside.relative_to("docs")
    if path == PROJECT / "README.md":
        return Path("index.md")
    if not (PAGES / inside).exists():
        (PAGES / inside).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, PAGES / inside)
    return inside


def navigation() -> list[dict[str, object]]:
    reference = [f"reference/{path.name}" for path in sorted((DOCS / "reference").glob("*.md"))]
    decisions = [f"decisions/{path.name}" for path in sorted((DOCS / "decisions").glob("*.md"))]
    return [
        {"Home": "index.md"},
        {"Learn": listed(LEARN)},
        {"Write programs": [*listed(PROGRAM), "pipelines.md", "examples/README.md"]},
        {"Operate": listed(OPERATE)},
        {"Look up": reference},
        {"Understand": [*listed(EXPLAIN), {"Decisions": decisions}]},
        {"Build Moldau": [*listed(BUILDING), "SECURITY.md", "CHANGELOG.md"]},
    ]


def listed(names: tuple[str, ...]) -> list[str]:
    return [f"{name}.md" for name in names]


if __name__ == "__main__":
    sys.exit(main())
