"""The Detailed DHC-B with the noise off against a naive tabulation; its noise by address; its check."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dhca_inputs import BLOCKS
from dhcb_inputs import BUDGETS, HouseholdInputs, configuration, households, release, released, truth_here

from flows.execution.systems import SYSTEMS
from spine.settings import Jurisdiction
from tasks.lifecycle.manifest import read_manifest

SOME_OFF = {name: 0 for name in BUDGETS if name.endswith(("t3_level_1_usa", "level_2_place", "t4_level_1_tract"))}
PR_TOO = households(80, 5, [*BLOCKS[:6], *BLOCKS[7:]])


@pytest.mark.parametrize("jurisdiction", ["us", "pr"])
@pytest.mark.parametrize(
    "changes",
    [{}, {"privacy_defn": "puredp", **SOME_OFF}, {"max_race_codes": 3, "allow_negative_counts": False}],
    ids=["zcdp", "puredp", "clipped"],
)
def test_without_noise_the_release_is_the_naive_one(
    tmp_path: Path, jurisdiction: Jurisdiction, changes: dict[str, Any]
) -> None:
    inputs = HouseholdInputs(config=configuration(run_pr=True, **changes), households=PR_TOO)
    place = truth_here(tmp_path, *inputs.write(tmp_path), jurisdiction)
    expected = release(inputs, jurisdiction)
    assert len({name.split("/")[1] for name in expected}) == 6
    assert {name: sorted(rows) for name, rows in released(place).items()} == expected
    assert all(rows == sorted(rows) for rows in released(place).values())
    manifest = read_manifest(place)
    checks = list(SYSTEMS["detailed-dhcb"].part("release_checks")(place, manifest))
    assert checks
    assert not [each for each in checks if each.faults]
