"""JSON nested deeper than a parser follows is bad input like any other: refused in one line by all that reads it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spine.settings import settings_for
from tasks.bottom_up.declared_histogram import read_declared_histogram
from tasks.errors import Refused
from tasks.geography.spine_options import read_allocation
from tasks.records.marks import read_mark
from tasks.s_dhc.configuration import read_configuration
from tasks.safetab.configuration import parse_configuration
from tasks.safetab.persons.level_budgets import read_settings
from tasks.safetab.persons.run import SafeTabPConfiguration
from tasks.synth.params import read_config

READERS: dict[str, Callable[[Path], Any]] = {
    "SYNTHETIC.json": lambda path: read_mark(path.parent),
    "config.json": lambda path: read_config(path.parent),
    "declaration.json": read_declared_histogram,
    "manifest.json": read_settings,
    "phsafe.json": read_configuration,
    "allocation.json": lambda path: read_allocation(str(path), None, settings_for("pl94-persons")),
}
DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("text", [DEEP, f'{{"groups": {DEEP}}}'], ids=["whole", "within"])
def test_deep_nesting_is_refused(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(Refused) as refused:
        READERS[name](tmp_path / name)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500


def test_deep_nesting_of_a_runs_configuration_is_one_finding() -> None:
    configuration, (finding,) = parse_configuration(DEEP, SafeTabPConfiguration)
    assert configuration is None
    assert re.search(
        "is not JSON as expected: (maximum recursion depth|Stack overflow)", finding.rule
    )  # as Python says


@pytest.mark.parametrize("depth", [100, 300, 600, 900])
@pytest.mark.parametrize("key", ["thresholds_p", "state_filter_us", "max_race_codes", "unknown"])
def test_what_the_parser_still_follows_is_a_finding_too(depth: int, key: str) -> None:
    configuration, findings = parse_configuration(f'{{"{key}": {"[" * depth + "]" * depth}}}', SafeTabPConfiguration)
    assert configuration is None
    assert findings
