"""Every option and argument of every command, as the command tree has them, with bad values.

A command ends with 0, 1 or 2, within seconds, without a traceback and without an unforeseen error. Numbers of runs,
rows or persons are work, and are not fuzzed upwards.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from e2e_runs import das
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flows.cli import app
from flows.execution.systems import SYSTEMS
from tasks.errors import Refused
from tests.flows.conftest import processor_seconds

SECONDS = 30  # of processor time, after which a command hangs
WORK = {"--runs", "--rows", "--persons"}
TEXTS = (
    *("", " ", "-1", "0", "1", "1/0", "nan", "inf", "1e-9", "1e-90", "1e6", "1e400", "0." + "9" * 90, "9" * 30),
    *(str(2**63), "[1]", "null", "a=b", "=", ",", "1,2", "s3://bucket/key", "nowhere://x", "zip://a::b.zip", "::"),
    *("/dev/null", "/dev/zero", "/proc/nowhere/x", ".", "..", "../up", "{run}", "[red]", "[/]", "%s", "x" * 5000),
    *("\udcff", "é\u202e", "\x1b[31m", "a|b", "44", "us", "*", "Nation, Detailed=1", "USA", "-"),
)
Words = list[str]


def leaves(command: Any, *path: str) -> Iterator[tuple[str, Any]]:
    """Every command of a tree, by the words that call it."""
    if hasattr(command, "commands"):
        for name, below in command.commands.items():
            yield from leaves(below, *path, name)
    else:
        yield " ".join(path), command


COMMANDS = dict(leaves(typer.main.get_command(app)))


def parameters(command: str) -> list[Any]:
    return [one for one in COMMANDS[command].params if one.name != "help"]


# Good words for each command, so that a bad one is met where it is used; EX is a folder with inputs, OUT a new one.
# A run stops at its flow, a spine before it is built.
INPUTS = {
    "detailed-dhca": "EX/params EX/data",
    "detailed-dhcb": "EX/params EX/data",  # of SafeTab-P: refused once its config.json is read
    "s-dhc": "EX/params/config.json EX/data",  # of SafeTab-P: refused once it is read
    "top-down": "EX/tda",
    "bottom-up": "EX/table.parquet EX/declaration.toml",
}
OF_INPUT = {
    "validate": "--workers 1",
    "run": "OUT",
    "truth": "OUT --workers 1",
    "accuracy": "OUT --runs 1 --workers 1",
}
GOOD = {
    f"{system.command} {command}".removeprefix("das ").replace("run ", ""): f"{INPUTS[name]} {OF_INPUT[command]}"
    for name, system in SYSTEMS.items()
    for command in system.commands
} | {
    "demo": "OUT",
    "show": "EX/data",  # no release: what would be served is not
    "check": "EX/data",
    "synth": "EX/blocks.csv EX/params OUT",
    "spine": "EX/data/GRF-C.txt OUT --only-state 36",
    "compare": "EX/params/config.json",
    "tabulate": "EX/data OUT",  # no release: refused
    "tune": "--level usa-1=1 --exclude-level usa-1",
    "deployment": "OUT",
    "census plan": "EX/census.toml",
    "census run": "EX/census.toml",
    "sdhc accuracy": "EX/params/config.json EX/data --runs 1 --workers 1",
    "tda declare": "EX/tda OUT",
    "tda explain": "example-districts",
    "tda estimate": "EX/tda OUT --workers 1",
    "tda import": "EX/tda OUT --workers 1",
    "tda inventory": "EX/tda",
    "tda areas": "EX/tda EX/blocks.csv OUT --workers 1",
    "tda accuracy": "EX/tda OUT --runs 1 --product units --workers 1",
    "tda tune": "EX/tda --product units --workers 1",
    "tda public": "EX/tda/persons.parquet EX/tda/units.parquet OUT --yes",
    "tda synth": "EX/tda/GRF-C.txt OUT",
    "ledger open": "name --definition zcdp --total 1",
    "ledger show": "",
    "ledger check": "",
    "ledger backup": "OUT",
    "ledger restore": "",
    "runs list": "",
    "runs show": "nobody",
    "runs discard": "nobody",
    "attribute-loss s-dhc": "",
    "attribute-loss dhc-a": "EX/params",
    "attribute-loss dhc-b": "",
    "attribute-loss tda": "",
    "bottom-up run": "EX/table.parquet EX/declaration.toml OUT --epsilon 1",
    "bottom-up example": "OUT --rows 10",
    "bottom-up noise": "--epsilon 1 --cells 2",
    "bottom-up curve": "--counts 1,2 --epsilon 1",
}
# Where a good call takes a second and more: then params and data are nowhere in the fast test, so that a call ends once
# its options are read.
SLOW = {"demo", "truth", "accuracy", "validate", "compare", "tda validate", "tda truth", "tda accuracy", "tda tune"}


def test_every_command_has_good_words() -> None:
    assert GOOD.keys() == COMMANDS.keys()


@pytest.fixture(scope="module")
def call(all_inputs: Path, client: Any) -> Iterator[Callable[..., None]]:
    """Call a command with the session's cluster in place of its own, and without a flow; it must end as they all do."""

    def no_flow(_settings: object) -> None:
        raise Refused("no flow is run here")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flows.execution.cluster.open_cluster", lambda *_: contextlib.nullcontext(client))
        for flow in (*(system.flow for system in SYSTEMS.values()), "flows.dry_run:dry_run"):
            patch.setattr(flow.replace(":", "."), no_flow)
        yield lambda command, *words: end_well(all_inputs, [*command.split(), *words])


def end_well(inputs: Path, words: Words) -> None:
    """Call `das` in a folder of its own: it ends in time with 0, 1 or 2, and says why it was not 0."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        words = [word.replace("EX/", f"{inputs}/") if word.startswith("EX/") else word for word in words]
        words = [f"{folder}/out" if word == "OUT" else word for word in words]
        patch.setenv("XDG_STATE_HOME", f"{folder}/state")
        patch.setattr(sys, "stdin", io.StringIO())
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), processor_seconds(SECONDS, words):
            code = das(*words)
        text = out.getvalue() + err.getvalue()
        assert code in (0, 1, 2), (words, text, unforeseen(Path(folder)))
        assert "Traceback" not in text, words
        if code:
            assert err.getvalue().strip(), words


def unforeseen(folder: Path) -> list[str]:
    return [path.read_text() for path in folder.rglob("errors/*.txt")]


def with_value(command: str, parameter: Any, value: str) -> Words:
    """A command's good words with another value of one parameter: in place of an argument, or as one more option."""
    words = GOOD[command].split()
    if parameter.param_type_name == "argument":
        at = [one.name for one in parameters(command) if one.param_type_name == "argument"].index(parameter.name)
        first = next((number for number, word in enumerate(words) if word.startswith("--")), len(words))
        arguments = words[:first]
        return [*arguments[:at], value, *arguments[at + 1 :], *words[first:]]
    if getattr(parameter, "is_flag", False):
        return [*words, parameter.opts[0]]
    return [*words, f"{parameter.opts[0]}={value}"]


def cases(command: str) -> st.SearchStrategy[Words]:
    """Words of a command with bad values of one parameter or two."""
    text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
    value = st.sampled_from(TEXTS) | text.map(lambda text: text.lstrip("/"))  # nothing at the file system's root
    known = [one for one in parameters(command) if not WORK.intersection(one.opts)]

    def both(parts: tuple[Any, str, Any, str]) -> Words:
        first, one, second, other = parts
        words = with_value(command, first, one)
        more = with_value(command, second, other)[len(GOOD[command].split()) :]
        return [*words, *more]

    one = st.tuples(st.sampled_from(known), value).map(lambda pair: with_value(command, *pair))
    return one | st.tuples(st.sampled_from(known), value, st.sampled_from(known), value).map(both)


@pytest.mark.long
def test_every_parameter_takes_a_bad_value(call: Callable[..., None]) -> None:
    faults = []
    for number, command in enumerate(COMMANDS):
        for place, parameter in enumerate(parameters(command)):
            if not (command in SLOW and getattr(parameter, "is_flag", False)):
                value = TEXTS[(7 * number + place) % len(TEXTS)] if not WORK.intersection(parameter.opts) else "-1"
                words = with_value(command, parameter, value)
                if command in SLOW:
                    words = [word.replace("EX/params", "EX/nowhere").replace("EX/tda", "EX/nowhere") for word in words]
                try:
                    call(command, *words)
                except AssertionError as fault:
                    faults.append(str(fault))
    assert not faults


FAST = sorted(COMMANDS.keys() - SLOW)


def examples(count: int) -> settings:
    return settings(
        max_examples=count, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )


@examples(20)
@given(words=st.sampled_from(FAST).flatmap(lambda command: st.tuples(st.just(command), cases(command))))
def test_options_of_every_command(call: Callable[..., None], words: tuple[str, Words]) -> None:
    call(words[0], *words[1])


@pytest.mark.long
@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_many_options_of_every_command(call: Callable[..., None], command: str) -> None:
    @examples(30 if command in SLOW else 100)
    @given(words=cases(command))
    def options(words: Words) -> None:
        call(command, *words)

    options()
