"""The pages of a Detailed DHC-B release: what they say of its groups, and of two tables that count one group."""

from __future__ import annotations

from pathlib import Path

import pytest
from dhcb_inputs import NATION_AND_COUNTIES, HouseholdInputs, configuration, households, released, stage_here

from flows.commands.show import open_release
from flows.reports.show.margins import has_estimates, is_clipped
from flows.reports.show.view import RELEASED
from tasks.geography.regions import Region


@pytest.mark.parametrize("estimates", [pytest.param(False, marks=pytest.mark.ci), True])
def test_pages_know_of_estimates_and_of_negative_counts_set_to_zero(tmp_path: Path, estimates: bool) -> None:
    """The manifest of a Detailed DHC-B has no facts about estimates; that of an S-DHC says whether there are some."""
    config = configuration(allow_negative_counts=not estimates, **NATION_AND_COUNTIES)
    inputs = HouseholdInputs(households=households(40), config=config)
    _, staged = stage_here(tmp_path, inputs, coterminous=False, estimates=estimates)
    pages = open_release(staged)
    assert has_estimates(pages.manifest | {"estimates": False}) is estimates
    region = next(one for one in sorted(pages.regions) if one.type == "COUNTY")
    said = pages.view({"view": f"region/{region.key}", "confidence": "90"}).reading
    assert ("The estimates pool both." in said) is estimates
    assert ("das ddhcb run --estimates pools them." in said) is not estimates
    assert ("Estimates are left out" in said) is estimates
    for asked in ("tables", next(f"table/{name}" for name in pages.tables if name.startswith("t3-"))):
        assert ("Negative counts were set to 0" in pages.view({"view": asked}).reading) is estimates


@pytest.mark.parametrize(
    ("facts", "clipped"),
    [
        ({"configuration": {"allow_negative_counts": False}}, True),
        ({"configuration": {"allow_negative_counts": True}}, False),
        ({"configuration": {"allow_negative_counts": True}, "tabulated": "the digest of a release"}, True),
        ({"clipped": True}, True),
        ({"clipped": False}, False),
        ({"configuration": "of anybody"}, False),
    ],
)
def test_each_system_says_in_its_own_way_that_counts_are_clipped(facts: dict[str, object], clipped: bool) -> None:
    assert is_clipped(facts) is clipped


@pytest.mark.ci
def test_pages_of_households_say_how_groups_were_selected_and_that_both_tables_count_them(tmp_path: Path) -> None:
    texts = {}
    for coterminous in (False, True):
        inputs, name = HouseholdInputs(households=households(200)), "one" if coterminous else "apart"
        _, staged = stage_here(tmp_path, inputs, name, coterminous=coterminous)
        pages = open_release(staged)
        region = next(one for one in sorted(pages.regions) if one.type == "COUNTY")
        texts[coterminous] = pages.view({"view": f"region/{region.key}"}).reading
        assert "nothing was left out because of the household count" in texts[coterminous]
        assert "too high on average" not in texts[coterminous]
        assert "count the same households with independent noise" in texts[coterminous]
        assert "pools them" in texts[coterminous]
        totals = {
            (kind, number, code): int(count)
            for name, rows in released(staged).items()
            for number, kind, code, cell, count in rows
            if name.startswith("t3/") and cell == "0"
        }
        for (kind, number, code), count in list(totals.items())[::20]:
            name = next(one for one in pages.index.codes if one.code == code)
            words = pages.pair(Region(kind, number), name, RELEASED).count
            assert words.startswith(f"{count:,}".replace("-", "−") + " ± ")
    assert "have independent noise too" in texts[False]
    assert "have one and the same count" in texts[True]
