"""Options as a new user meets them: closed choices, and the panels of `das --help`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flows.cli import ANALYSE, DECIDE, LOOK, OF_DHC, OPERATE, RELEASE

Das = Callable[..., tuple[int, str, str]]


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
