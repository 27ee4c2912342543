"""The documents that newcomers read: every command has its place, every option exists, every example runs."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

import privacy
import spine
from docs import commands, tables
from tests.test_citations import texts

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "deploy").glob("*.md"))]
BLOCK = re.compile(r"^```(?:sh|console(?: noisy)?)?\n(.*?)^```$", re.M | re.S)
CODE = re.compile(r"`([\w./]+\.py|[a-z]+(?:_[a-z]+)+|(?:[A-Z][a-z]+){2,})(?:\.\w+|\(\))?`")
FOREIGN = {"table_reader.py", "pause_reschedule"}  # of the Bureau's program and of Prefect


def shown(page: Path) -> list[list[str]]:
    """The commands of das in a page's blocks, as lists of words."""
    lines = [line for block in BLOCK.findall(page.read_text()) for line in block.replace("\\\n", " ").splitlines()]
    commands = [re.search(r"(?:^|^\$ |measure\.py (?:\S+ )*)(das .*)", line) for line in lines]
    return [shlex.split(re.split(r" [|>&]", match[1])[0], comments=True) for match in commands if match]


def named(words: list[str]) -> str:
    """The longest full name of a command that these words begin with, or none."""
    known = commands.das_commands()
    return max((name for name in known if words[: len(name.split())] == name.split()), key=len, default="")


def test_every_command_has_a_section_with_its_sentence_and_an_example() -> None:
    sections = commands.sections(commands.CLI.read_text())
    lacking = [
        f"{name}: run `make docs`"
        for name, command in commands.das_commands().items()
        if commands.sentence(command) not in sections.get(name, "")
        or not any(re.search(rf"^\$ {name}\b", block[2], re.M) for block in commands.FENCE.finditer(sections[name]))
    ]
    assert not lacking
    assert sorted(set(sections) - set(commands.das_commands())) == []


def test_a_command_without_a_section_is_given_one() -> None:
    page = commands.with_sentences("# Commands\n")
    assert "\n## das tune\n" in page
    assert commands.with_sentences(page) == page
    example = next(iter(commands.das_commands()))
    assert commands.sections(page.replace(f"## {example}\n", "")).keys() == commands.das_commands().keys() - {example}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_and_options_that_a_page_shows_exist(page: Path) -> None:
    known = commands.das_commands()
    wrong = []
    for words in shown(page):
        name = named(words)
        options = (
            {option for parameter in known[name].params for option in (*parameter.opts, *parameter.secondary_opts)}
            if name
            else set()
        )
        wrong += [
            f"{' '.join(words)}: {word}"
            for word in words[1:]
            if word.startswith("--") and word.split("=")[0] not in options | {"--help"}
        ]
        if not name and "--help" not in words:
            wrong.append(" ".join(words))
    assert not wrong


def test_files_and_names_of_code_that_pages_show_exist() -> None:
    """Backticked: a file of Python by its name or the end of its path, an identifier_like_this or LikeThis."""
    sources = [file for file in texts(".py", ".toml", ".html", ".yaml", ".sql") if file.name != "test_docs.py"]
    words = {word for file in sources for word in re.findall(r"\w+", file.read_text())}
    paths = [f"/{file.relative_to(ROOT)}" for file in sources]
    wrong = []
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for name in set(CODE.findall(page.read_text())) - FOREIGN:
            is_file = (ROOT / name).exists() or any(path.endswith(f"/{name}") for path in paths)
            if not (is_file if name.endswith(".py") else name in words):
                wrong.append(f"{page.relative_to(ROOT)}: {name}")
    assert not wrong


def test_the_examples_of_the_api_run(tmp_path: Path) -> None:
    done = doctest.testfile(str(ROOT / "docs/api.md"), module_relative=False, globs={"folder": tmp_path})
    assert done.attempted > 20
    assert done.failed == 0


@pytest.mark.parametrize("package", [privacy, spine], ids=lambda it: it.__name__)
def test_a_package_lists_the_names_that_it_offers(package: object) -> None:
    names = package.__all__  # type: ignore[attr-defined]
    assert sorted(names) == sorted(set(names))
    assert all(hasattr(package, name) for name in names)


def test_numbers_of_a_noisy_block_are_not_compared_and_its_words_are() -> None:
    assert commands.alike("│ 1,023 │ -4.5 ─── US") == commands.alike("│ 7 │ +88 ─ US")
    assert commands.alike("US 1") != commands.alike("PR 1")
    assert commands.alike("digest\n" + 12 * "0af" + "\n1.6e+03 \n") == commands.alike("digest " + 12 * "9be" + " 12 ")


@pytest.mark.long
@pytest.mark.e2e
@pytest.mark.parametrize("page", commands.PAGES, ids=lambda page: page.stem)
def test_the_commands_print_what_the_page_shows(page: Path) -> None:
    assert commands.differences(page.read_text()) == []


@pytest.mark.slow
def test_the_page_of_tables_is_what_the_releases_of_every_system_say() -> None:
    assert tables.PAGE.read_text("utf-8") == tables.made()
