"""Options as a new user meets them: earlier names, closed choices, and the panels of `das --help`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flows.cli import ANALYSE, DECIDE, LOOK, OF_DHC, OPERATE, RELEASE, RENAMED
from tests.flows.test_every_option import COMMANDS, parameters

Das = Callable[..., tuple[int, str, str]]


def names(command: str) -> set[str]:
    """The options of a command, and its arguments by the names that help shows."""
    return {name for each in parameters(command) for name in (*each.opts, each.metavar or each.name.upper())}


@pytest.mark.parametrize("old", RENAMED)
def test_an_earlier_name_of_an_option_exits_with_2_and_names_the_new_one(das: Das, old: str) -> None:
    """In every command that lost it; each replacement has such a command."""
    replaced = set()
    for command in COMMANDS:
        takes = names(command)
        new = next((new for new in RENAMED[old] if new in takes), None)
        if old in takes or new is None:
            continue
        code, out, err = das(*command.split(), old, "x")
        assert (code, out) == (2, "")
        assert f"{old} is now {new} " in " ".join(err.split())
        replaced.add(new)
    assert replaced == set(RENAMED[old])


@pytest.mark.parametrize(
    ("command", "old", "new"),
    [
        ("run", "--state", "--runs-folder"),
        ("synth", "--states", "--only-state"),
        ("tda run", "--totals", "--state-totals"),
        ("tda areas", "--totals", "--state-totals"),
        ("bottom-up run", "--margin", "--marginal"),
    ],
)
def test_the_new_name_is_there_and_the_old_one_is_gone(command: str, old: str, new: str) -> None:
    assert (old in names(command), new in names(command), new in RENAMED[old]) == (False, True, True)


@pytest.mark.parametrize(
    ("words", "choices"),
    [
        ("tda run --definition pure", "'zcdp', 'puredp'"),
        ("spine a b --definition pure", "'zcdp', 'puredp'"),
        ("tune --definition pure", "'zcdp', 'puredp'"),
        ("tune --jurisdiction mars", "'us', 'pr'"),
        ("ledger open a --total 1 --definition pure", "'zcdp', 'puredp'"),
        ("compare --paper gazette", "'comparison', 'production'"),
        ("attribute-loss dhc-a --crossed street", "'anywhere', 'same state', 'same county', 'same tract'"),
        ("attribute-loss s-dhc --method loose", "'deck', 'tight'"),
        ("synth out --for ddhcb,sdhc", "'detailed-dhca', 'ddhcb', 'sdhc', 'tda', 'dhc', 'all'"),
        ("synth out --record-format csv", "'text', 'parquet'"),
        ("bottom-up run a b c --calibration magic", "'additive', 'nonnegative'"),
    ],
)
def test_a_closed_choice_lists_itself(das: Das, words: str, choices: str) -> None:
    code, out, err = das(*words.split())
    assert (code, out) == (2, "")
    _, _, listed = " ".join(err.replace("│", " ").split()).partition(" is not one of ")
    assert set(listed.partition(".")[0].split(", ")) == set(choices.split(", "))


def test_a_product_of_the_dhc_is_found_as_a_declaration(das: Das) -> None:
    code, _, err = das("tda", "run", "a", "b", "--product", "dhc-households")
    assert (code, OF_DHC in " ".join(err.replace("│", " ").split())) == (2, True)


def test_help_is_grouped(das: Das) -> None:
    """Every command is in a panel, and the panels are in the order of a release's life."""
    text = das("--help")[1]
    places = [text.index(f"─ {panel} ─") for panel in (RELEASE, LOOK, DECIDE, OPERATE, ANALYSE)]
    assert places == sorted(places)
    assert "─ Commands ─" not in text
