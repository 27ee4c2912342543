"""The documents that newcomers read: every command has its place, every option exists, every example runs."""

from __future__ import annotations

import doctest
import json
import os
import re
import shlex
import subprocess
import sys
from fnmatch import fnmatchcase
from fractions import Fraction
from pathlib import Path

import pytest

import privacy
import spine
from docs import cli, commands, tables
from privacy.accounting.attacker import detection
from privacy.accounting.conversions import epsilon
from privacy.accounting.states import STATES_US
from spine.production import allocation
from tasks.s_dhc.configuration import read_configuration
from tasks.synth.params import PRODUCTION, SDHC_CONFIG
from tests.test_citations import texts

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "deploy").glob("*.md"))]
BLOCK = re.compile(r"^```(?:sh|console(?: noisy)?)?\n(.*?)^```$", re.M | re.S)
CODE = re.compile(r"`([\w./]+\.py|[a-z]+(?:_[a-z]+)+|(?:[A-Z][a-z]+){2,})(?:\.\w+|\(\))?`")
FOREIGN = {"table_reader.py", "pause_reschedule"}  # of the Bureau's program and of Prefect


def shown(page: Path) -> list[list[str]]:
    """The commands of das in a page's blocks, as lists of words."""
    lines = [
        line
        for block in BLOCK.findall(page.read_text(encoding="utf-8"))
        for line in block.replace("\\\n", " ").splitlines()
    ]
    commands = [re.search(r"(?:^|^\$ |measure\.py (?:\S+ )*)(das .*)", line) for line in lines]
    return [shlex.split(re.split(r" [|>&]", match[1])[0], comments=True) for match in commands if match]


def named(words: list[str]) -> str:
    """The longest full name of a command that these words begin with, or none."""
    known = cli.das_commands()
    return max((name for name in known if words[: len(name.split())] == name.split()), key=len, default="")


def faults_of(words: list[str]) -> list[str]:
    """What is wrong with a command of das: there is none of its name, or it lacks an option."""
    name = named(words)
    if not name:
        return [] if "--help" in words else [" ".join(words)]
    parameters = cli.das_commands()[name].params
    options = {option for each in parameters for option in (*each.opts, *each.secondary_opts)} | {"--help"}
    asked = (word.split("=")[0] for word in words[1:] if word.startswith("--"))
    return [f"{' '.join(words)}: {word}" for word in asked if word not in options]


@pytest.mark.parametrize("name", cli.das_commands())
def test_every_command_has_a_sentence_and_examples_that_exist(name: str) -> None:
    text = cli.das_commands()[name].help
    assert re.match(r"[A-Z].*[.:]", text.split("\n")[0])
    lines = re.findall(r"`(das [^`]+)`", text.partition("**Example:**")[2])
    examples = [shlex.split(line) for line in lines]
    assert name in map(named, examples)
    assert [fault for words in examples for fault in faults_of(words)] == []


def test_the_page_of_commands_has_the_help_of_each() -> None:
    page = cli.made()
    for name, command in cli.das_commands().items():
        section = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
        sentence = command.help.split("\n\n")[0].replace("`", "")
        assert " ".join(sentence.split()) in " ".join(section.split())
        assert all(each.opts[-1] in section for each in command.params if each.param_type_name == "option")
        assert all(each.metavar for each in command.params if each.param_type_name == "argument")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_and_options_that_a_page_shows_exist(page: Path) -> None:
    assert [fault for words in shown(page) for fault in faults_of(words)] == []


def test_files_and_names_of_code_that_pages_show_exist() -> None:
    """Backticked: a file of Python by its name or the end of its path, an identifier_like_this or LikeThis."""
    sources = [file for file in texts(".py", ".toml", ".html", ".yaml", ".sql") if file.name != "test_docs.py"]
    words = {word for file in sources for word in re.findall(r"\w+", file.read_text())}
    paths = [f"/{file.relative_to(ROOT)}" for file in sources]
    wrong = []
    made = ROOT / "docs/spec/tables.md"  # of columns' names, which code joins from parts
    for page in [*(each for each in PAGES if each != made), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
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


def bounds() -> dict[str, dict[str, Fraction | float]]:
    """By page, bounds that it states, each with the words around its figure, and exactly."""
    tables = read_configuration(PRODUCTION / SDHC_CONFIG, {"state_filter": [*STATES_US], "reader": "csv"})
    s_dhc = {relation.key: relation.figure for relation in tables.spend().relations}
    persons, units = allocation("pl94-persons", "us"), allocation("pl94-units", "us")
    of_a_state = [each.budget * (1 - each.levels["US"]) for each in (persons, units)]
    dhc = [allocation(name, "us").budget for name in ("dhc-persons", "dhc-units")]
    in_place, delta = sum(of_a_state + dhc), Fraction(1, 10**10)
    return {
        "privacy.md": {
            "recognize at most # at ρ 0.5,": 100 * detection("zcdp", 0.5),
            "0.5, # at ρ 1 and": 100 * detection("zcdp", 1),
            "1 and # at ρ 4.944 (": 100 * detection("zcdp", 4.944),
            "a person added or removed costs at most #, of": Fraction("4.944") + 2 * Fraction("8.895302"),
        },
        "census.md": {"loses rho # by all": in_place, "all four, epsilon # at delta": epsilon(in_place, delta)},
        "s-dhc.md": {
            "one household added or removed | # |": s_dhc["household"],
            "with all consequences) | # |": s_dhc["one_unit"],
            "two units rewritten (a move) | # |": s_dhc["two_units"],
            "the program's relation; of valid files | #;": s_dhc["coded"],
            "of valid files | 1.118; # |": s_dhc["coded_valid"],
        },
        "top-down.md": {
            "293764/114921 (#) and": persons.budget,
            ") and #. Without": units.budget,
            "is not spent: # and": of_a_state[0],
            "is not spent: 2.4914 and #. `--persons-allocation": of_a_state[1],
        },
        "spec/spine.md": {
            "for units, ε # and": epsilon(persons.budget, delta),
            "ε 17.15 and # at δ": epsilon(units.budget, delta),
        },
    }


@pytest.mark.parametrize("page", ["privacy.md", "census.md", "s-dhc.md", "top-down.md", "spec/spine.md"])
def test_bounds_of_losses_on_a_page_are_rounded_up(page: str) -> None:
    text = " ".join((ROOT / "docs" / page).read_text("utf-8").split())
    for words, exact in bounds()[page].items():
        (stated,) = re.findall(re.escape(words).replace(re.escape("#"), r"([\d.]*\d)"), text)
        places = len(stated.partition(".")[2])
        assert 0 <= Fraction(stated) - Fraction(exact) < Fraction(1, 10**places), (words, stated)


def test_numbers_of_a_noisy_block_are_not_compared_and_its_words_are() -> None:
    assert commands.alike("│ 1,023 │ -4.5 ─── US") == commands.alike("│ 7 │ +88 ─ US")
    assert commands.alike("US 1") == commands.alike("US 1,415*") != commands.alike("PR 1")
    assert commands.alike("digest\n" + 12 * "0af" + "\n1.6e+03 \n") == commands.alike("digest " + 12 * "9be" + " 12 ")


@pytest.mark.e2e
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(commands.README, marks=pytest.mark.ci),
        *(pytest.param(page, marks=pytest.mark.long) for page in commands.PAGES),
    ],
    ids=lambda page: page.stem,
)
def test_the_commands_print_what_the_page_shows(page: Path) -> None:
    assert commands.differences(page.read_text(encoding="utf-8")) == []


@pytest.mark.slow
def test_the_page_of_tables_has_every_column_of_what_das_demo_releases(tmp_path: Path) -> None:
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state")}
    das = Path(sys.executable).with_name("das")
    subprocess.run([das, "demo", tmp_path / "out"], env=environment, stdout=subprocess.DEVNULL, check=True)
    (demo,) = (tmp_path / "out").iterdir()
    page = tables.page_of(demo)
    for title, release in tables.SYSTEMS.items():
        section = page.split(f"\n## {title}\n")[1].split("\n## ")[0]
        package = json.loads((demo / release / "datapackage.json").read_text("utf-8"))
        columns = re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE)  # of a spine some are patterns: se_*
        for resource in package["resources"]:
            for field in resource.get("schema", {}).get("fields", []):
                assert any(fnmatchcase(field["name"], column) for column in columns), (title, resource["name"])
