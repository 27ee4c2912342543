"""The documentation as a site, by `make site`: the Markdown pages of the repository, each where it is, and the API."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

project = html_title = "das-flows"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
include_patterns = [
    f"{place}*.md" for place in ("", "docs/", "docs/spec/", "docs/site/", "deploy/", "examples/", "benchmarks/results/")
]
root_doc = "README"
myst_heading_anchors = 4  # links such as privacy.md#proof
html_theme = "furo"
html_show_copyright = html_show_sphinx = False
napoleon_google_docstring = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
suppress_warnings = ["myst.header"]  # a page may begin at any level

PAGES = {
    "Start": [
        "docs/site/look",
        "docs/tutorial",
        "docs/show",
        "docs/cli",
        "docs/glossary",
        "docs/interoperability",
        "docs/elsewhere",
        "docs/declarations",
    ],
    "Systems": [
        "docs/top-down",
        "docs/dhc",
        "docs/detailed-dhcb",
        "docs/census",
        "docs/s-dhc",
        "docs/spine",
        "docs/published",
        "docs/estimates",
        "docs/analyses",
    ],
    "Privacy": ["docs/privacy", "docs/attacks"],
    "Operation": ["deploy/README", "docs/operations", "docs/scale", "benchmarks/results/*"],
    "Python": ["docs/api", "docs/site/reference", "examples/README"],
    "Inside": [
        "docs/architecture",
        "docs/reading-the-code",
        "docs/decisions",
        "docs/spec/*",
        "CONTRIBUTING",
        "CHANGELOG",
    ],
}


def add_contents(app: Sphinx, page: str, source: list[str]) -> None:
    """Put the list of all pages under README, which is the first of them and knows nothing of this site."""
    if page == root_doc:
        for caption, pages in PAGES.items():
            paths = "\n".join(f"/{each}" for each in pages)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:glob:\n:caption: {caption}\n\n{paths}\n```\n"


def read_as_text(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Take the docstrings' |X| and a*b for text, and their lines `name: what it is` for fields."""
    field, above = False, ""
    for number, line in enumerate(lines):
        text = re.sub(r"([|*])", r"\\\1", line)
        begins = (field or not above.strip()) and re.match(r"[a-z_]+(, [a-z_]+)*: ", text)
        field, above = bool(begins or (field and text.strip())), line
        lines[number] = f":{text}" if begins else f"    {text.strip()}" if field else text


def setup(app: Sphinx) -> None:
    """Connect what this file adds."""
    app.connect("source-read", add_contents)
    app.connect("autodoc-process-docstring", read_as_text)
