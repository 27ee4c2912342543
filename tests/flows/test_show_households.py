"""The pages of a Detailed DHC-B release: what they say of its groups, and of two tables that count one group."""

from __future__ import annotations

from pathlib import Path

import pytest
from dhcb_inputs import HouseholdInputs, households, released, stage_here

from flows.commands.show import open_release
from flows.reports.show.geography import Region


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
            assert pages.pair(Region(kind, number), name).count.startswith(f"{count:,}".replace("-", "−") + " ± ")
    assert "have independent noise too" in texts[False]
    assert "have one and the same count" in texts[True]
