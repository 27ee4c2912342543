"""The house: which room may import which, and which libraries. Every import counts, those inside functions too.

flows -> tasks -> spine -> privacy
in tasks: a system -> geography -> records -> lifecycle -> releases -> kernels, memory;
                                          no system imports another
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HOUSE = ("flows", "tasks", "privacy", "spine")
BELOW = {"flows": {"tasks", "privacy", "spine"}, "tasks": {"privacy", "spine"}, "privacy": set(), "spine": {"privacy"}}
FLOORS = (
    "errors",
    "kernels",
    "memory",
    "releases",
    "lifecycle",
    "records",
    "geography",
)  # of tasks, which every system stands on
COMMON = tuple(f"tasks.{floor}" for floor in FLOORS)
SAFETAB = "tasks.safetab"  # what the SafeTabs share, and a room in it for each of them
# A library that only some may import: who may.
RESERVED = {
    "prefect": {"flows"},
    "dask": {"flows", "tasks"},
    "distributed": {"flows", "tasks"},
    "typer": {"flows"},
    "rich": {"flows"},
    "fsspec": {"flows", "tasks"},
    "pyarrow": {"flows", "tasks"},
    "pandas": {"flows", "tasks"},
    "sqlite3": {"privacy"},
    "pyogrio": {"flows"},
    "shapely": {"flows"},
}
# What runs code that a file names, when it reads the file.
UNPICKLING = {"pickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib", "copyreg", "runpy"}
UNPICKLES = {"read_pickle", "to_pickle"}
# What opens files; `os` is not among them, for randomness comes from it too.
FILES = {"pathlib", "shutil", "tempfile", "io", "glob", "json", "csv"}
FILES_ALLOWED = {  # the ledger is a file, and its journal
    "privacy.accounting.ledger": {"pathlib", "sqlite3", "json", "tempfile"},
    "privacy.accounting.entries": {"sqlite3"},
    "privacy.accounting.journal": {"pathlib", "json"},
}


@cache
def modules() -> dict[str, Path]:
    """Every module of the house, by name."""
    by_name = {}
    for package in HOUSE:
        for path in (ROOT / package).rglob("*.py"):
            by_name[".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")] = path
    return by_name


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements, those inside others too; a tenth of the nodes that `ast.walk` visits."""
    for each in body:
        yield each
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(each, name, []))


def imported(source: str) -> Iterator[str]:
    """The modules, or names in them, that a source imports."""
    for node in statements(ast.parse(source).body):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole module"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def imports() -> dict[str, set[str]]:
    """The modules of the house, and the libraries, that each module imports."""
    return {module: {_module(name) for name in imported(path.read_text())} for module, path in modules().items()}


def _module(name: str) -> str:
    """The module that a dotted name is, or is in; a library by its first name."""
    if package(name) not in HOUSE:
        return package(name)
    return name if name in modules() else name.rpartition(".")[0]


def package(module: str) -> str:
    return module.partition(".")[0]


def room(module: str) -> str:
    """The room of a module: its subpackage; a module that stands directly in a package is a room of its own."""
    return ".".join(module.split(".")[:2])


def between() -> Iterator[tuple[str, str]]:
    """(module, module of the house that it imports)."""
    for module, others in imports().items():
        yield from ((module, other) for other in others if package(other) in HOUSE)


# Imports that nobody may make: (importing module, imported module of the house) to whether it is one.
WRONG: dict[str, Callable[[str, str], bool]] = {
    "a package imports upwards": lambda module, other: package(other) not in BELOW[package(module)] | {package(module)},
    "a system imports another": lambda module, other: (
        module.startswith("tasks.")
        and other.startswith("tasks.")
        and room(other) not in {*COMMON, SAFETAB, room(module)}
    ),
    "a floor of tasks imports upwards": lambda module, other: (
        room(module) in COMMON
        and other.startswith("tasks.")
        and room(other) not in COMMON[: COMMON.index(room(module)) + 1]
    ),
    "a SafeTab of one kind of record is imported from outside": lambda module, other: (
        module.startswith("tasks.")
        and other.startswith((f"{SAFETAB}.persons", f"{SAFETAB}.households"))
        and not module.startswith(".".join(other.split(".")[:3]))
    ),
    "the program of 2020 imports our own estimator": lambda module, other: (
        (room(module), room(other)) == ("spine.top_down", "spine.gls")
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_no_import_is_wrong(wrong: str) -> None:
    assert [f"{module} imports {other}" for module, other in between() if WRONG[wrong](module, other)] == []


@pytest.mark.parametrize("part", [room, str], ids=["rooms", "modules"])
def test_nothing_imports_in_a_circle(part: Callable[[str], str]) -> None:
    above: dict[str, set[str]] = {}
    for module, other in between():
        if part(module) != part(other) and "." in module and "." in other:
            above.setdefault(part(module), set()).add(part(other))
    try:
        TopologicalSorter(above).prepare()
    except CycleError as circle:
        pytest.fail(" -> ".join(circle.args[1]))


# The rooms of the TopDown Algorithm, each above all before it: the run's own, then those that surround it.
RUN = (
    "choices",
    "run_plan",
    "spend",
    "areas",
    "source",
    "measure",
    "blocks",
    "input",
    "estimate",
    "release",
)
AROUND = ("accuracy", "user_areas", "published", "declared", "check")


def test_the_run_of_top_down_knows_only_steps_before_it_and_nothing_around_it() -> None:
    place = {name: number for number, name in enumerate((*RUN, *AROUND))}
    pairs = [
        (module, other)
        for module, other in between()
        if room(module) == room(other) == "tasks.top_down" and module.count(".") > 1
    ]
    assert {module.split(".")[2] for pair in pairs for module in pair} == set(place)
    later = [pair for pair in pairs if place[pair[0].split(".")[2]] < place[pair[1].split(".")[2]]]
    assert not later


def test_the_estimator_of_the_program_of_2020_is_complete_without_our_own_estimator() -> None:
    steps = imports()["tasks.top_down.estimate.topdown"]
    assert "tasks.top_down.source" in steps
    assert not {step for step in steps if ".gls" in step}


@pytest.mark.parametrize("library", RESERVED)
def test_a_library_is_imported_where_it_belongs(library: str) -> None:
    wrong = [
        module
        for module, others in imports().items()
        if library in others
        and package(module) not in RESERVED[library]
        and library not in FILES_ALLOWED.get(module, ())
    ]
    assert not wrong


def test_privacy_and_spine_know_no_files() -> None:
    wrong = [
        f"{module} imports {', '.join(sorted(used))}"
        for module, others in imports().items()
        if package(module) in ("privacy", "spine")
        if (used := (others & FILES) - FILES_ALLOWED.get(module, set()))
    ]
    assert not wrong


def test_an_import_is_seen_wherever_it_stands() -> None:
    source = "import a.b\nfrom tasks.lifecycle import commit\ndef f():\n    from spine.noise import noise as n\n"
    assert list(imported(source)) == ["a.b", "tasks.lifecycle.commit", "spine.noise.noise"]
    assert [_module(name) for name in imported(source)] == ["a", "tasks.lifecycle.commit", "spine.noise"]


def unpickles(source: str) -> list[str]:
    """What in a source could unpickle a file: modules, functions, arrays of objects."""
    if not any(word in source for word in (*UNPICKLING, *UNPICKLES, "allow_pickle")):
        return []  # parsing every module takes seconds
    found = [name for name in imported(source) if package(name) in UNPICKLING]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in UNPICKLES:
            found.append(node.attr)
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False":
            found.append("allow_pickle")
    return found


def test_nothing_unpickles_a_file() -> None:
    """`numpy.load` alone takes no arrays of objects."""
    assert {name: found for name, path in modules().items() if (found := unpickles(path.read_text()))} == {}
    source = "import pickle\nfrom joblib import load\npd.read_pickle(x)\nnp.load(x, allow_pickle=y)\nnp.load(x)\n"
    assert unpickles(source) == ["pickle", "joblib.load", "read_pickle", "allow_pickle"]
