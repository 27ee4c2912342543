"""What the repository cites, it holds: links, anchors, and the paths that prose, docstrings and comments name."""

from __future__ import annotations

import re
import subprocess
import tokenize
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).resolve()
ROOT = HERE.parents[1]
ROOMS = "privacy|spine|tasks|flows|tests|docs|deploy|examples|benchmarks"
PATH = re.compile(rf"(?<![\w/.-])((?:{ROOMS})/(?:[\w.-]+/)*[\w-]+\.(?:py|md|svg|yaml|html|js|json))(#[\w-]+)?(?![\w/])")
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]+)?\)")
# Documents that nobody who clones the repository has.
ELSEWHERE = re.compile(r"DESIGN|\bspecs/|\bspec \d|\.\./shared")


def texts(*suffixes: str) -> list[Path]:
    """The files that git knows, or would know, but this one: those with one of the suffixes, or all text files."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git repository")
    skipped = (".svg", ".lock", ".png")
    paths = [ROOT / name for name in listed if name and not name.endswith(skipped)]
    return [file for file in paths if file.is_file() and file != HERE and (not suffixes or file.suffix in suffixes)]


def prose(file: Path) -> str:
    """The text of a file; of Python its comments and docstrings, for a test's code may name files that it makes."""
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".py" or not PATH.search(text):  # a source without any path need not be cut into tokens
        return text
    with tokenize.open(file) as source:
        tokens = list(tokenize.generate_tokens(source.readline))
    return "\n".join(
        token.string
        for token in tokens
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.string.startswith('"""'))
    )


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(
        r"^#+ +(.+?) *$", re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S), flags=re.M
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def absent(page: Path, anchor: str) -> bool:
    return not page.exists() or (anchor != "" and page.suffix == ".md" and anchor[1:] not in anchors(page))


def test_links_of_the_pages_lead_somewhere() -> None:
    broken = []
    for page in texts(".md"):
        for target, anchor in LINK.findall(page.read_text()):
            if "://" not in target and absent((page.parent / target).resolve() if target else page, anchor):
                broken.append(f"{page.relative_to(ROOT)}: {target}{anchor}")
    assert not broken


def test_paths_that_are_named_exist() -> None:
    broken = []
    for file in texts():
        for path, anchor in PATH.findall(prose(file)):
            if absent(ROOT / path, anchor):
                broken.append(f"{file.relative_to(ROOT)}: {path}{anchor}")
    assert not broken


def test_nothing_is_cited_that_the_repository_does_not_have() -> None:
    lines = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in texts()
        for number, line in enumerate(file.read_text().split("\n"), start=1)
        if ELSEWHERE.search(line)
    ]
    assert not lines


def test_the_glossary_has_each_word_once_in_order() -> None:
    words = re.findall(r"^\| \*\*(.+?)\*\*", (ROOT / "docs/glossary.md").read_text(), flags=re.M)
    assert len(words) > 40
    assert [word.lower() for word in words] == sorted({word.lower() for word in words})


def test_the_checks_find_what_is_wrong(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# config.json\n\n## A draw, seen *once*\n\n```\n# no heading\n```\n")
    assert anchors(page) == {"configjson", "a-draw-seen-once"}
    assert absent(page, "#b")
    assert absent(tmp_path / "none.md", "")
    assert PATH.findall("see docs/spine.md#noise, (tasks/x.py) and OUT/spine/x.json") == [
        ("docs/spine.md", "#noise"),
        ("tasks/x.py", ""),
    ]
    assert ELSEWHERE.search("as DESIGN section 4 says")
    assert not ELSEWHERE.search("the design; a spec")
