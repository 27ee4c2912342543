"""`das check` of forged releases: each statement and each table of each system in turn.

A forgery is found, or `das check` itself lists its part as not checked. What is listed is listed here too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from fnmatch import fnmatchcase
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from forgeries import Rows, changing, copied, forgeries, stating

from flows.commands.check import check
from tasks.errors import Refused
from tests.systems.cases import CASES, Case
from tests.systems.conftest import Finished, every

Finish = Callable[[Case], Finished]


def checked(release: Path) -> tuple[str, list[str]]:
    """Check a release; return why it is refused, or "", and the parts that are not checked."""
    out, why = StringIO(), ""
    try:
        with redirect_stdout(out):
            check(release, as_json=True)
    except Refused as refused:
        why = str(refused)
    return why, [each["part"] for each in json.loads(out.getvalue())["not_checked"]] if out.getvalue() else []


def is_part_of(part: str, patterns: frozenset[str]) -> bool:
    """Whether a part is one of those that are not checked, or inside of one."""
    return any(fnmatchcase(part, pattern) or fnmatchcase(part, f"{pattern}.*") for pattern in patterns)


@every(but="forgeries")
def test_a_release_agrees_and_says_what_is_not_checked(finished: Finish, case: Case) -> None:
    why, parts = checked(finished(case).release)
    assert why == ""
    assert [part for part in parts if not is_part_of(part, case.not_provable)] == []
    assert [each for each in case.not_provable if not any(fnmatchcase(part, each) for part in parts)] == []


@every(but="forgeries")
@pytest.mark.parametrize("most", [4, pytest.param(24, marks=pytest.mark.ci), pytest.param(0, marks=pytest.mark.slow)])
def test_each_forgery_is_found_or_not_provable(finished: Finish, tmp_path: Path, case: Case, most: int) -> None:
    """Some of them, spread over statements and tables; all where `most` is 0."""
    missed, found = [], forgeries(finished(case).release)
    for number, forgery in enumerate(found[:: -(-len(found) // most)] if most else found):
        release = copied(finished(case).release, tmp_path / str(number))
        forgery.forge(release)
        if checked(release)[0] == "" and not is_part_of(forgery.part, case.not_provable):
            missed.append(str(forgery))
    assert missed == []


def without_noise(manifest: dict[str, Any]) -> None:
    """Leave the noise out, and claim a tenth of the loss."""
    for product in manifest["products"].values():
        del product["noise"], product["shares"]
    for each in (manifest["spent"]["charged"], *manifest["spent"]["relations"]):
        if "exact" in each:
            each.update(exact=str(Fraction(each["exact"]) / 10), decimal=each["decimal"] / 10)


def no_groups(manifest: dict[str, Any]) -> None:
    for level in manifest["levels"].values():
        level["groups_published"] = {}


def more(rows: Rows) -> Rows:
    for row in rows:
        row["COUNT"] = str(int(row["COUNT"]) + 1000) if isinstance(row["COUNT"], str) else row["COUNT"] + 1000
    return rows


def more_with_less_margin(rows: Rows) -> Rows:
    return [{**row, **({"MOE": row["MOE"] // 4} if "MOE" in row else {})} for row in more(rows)]


def without(column: str, value: str) -> Callable[[Rows], Rows]:
    return lambda rows: [row for row in rows if row[column] != value]


def both(name: str) -> list[str]:
    return [f"parquet/{name}.parquet", f"{name}.csv"]


NAMED = [  # forgeries of several parts at once, which agreed with their manifests
    ("top-down", stating(without_noise)),
    ("detailed-dhcb", stating(no_groups)),
    ("detailed-dhcb", changing(both("t3/T03001/usa-1"), more_with_less_margin)),
    ("bottom-up", changing(both("by-state"), more)),
    ("s-dhc", changing(["PH2/PH2.parquet", "PH2/PH2.csv"], without("REGION_ID", "44"))),
    ("declared", changing([*both("zone"), *both("district"), *both("region")], without("region", "2"))),
    ("declared", changing(["measurements/zone.parquet"], without("region", "2"))),
]


@pytest.mark.parametrize(("system", "forge"), NAMED)
def test_a_release_that_once_agreed_is_found(
    finished: Finish, tmp_path: Path, system: str, forge: Callable[[Path], None]
) -> None:
    (case,) = (case for case in CASES if case.name == system)
    release = copied(finished(case).release, tmp_path / "release")
    forge(release)
    assert re.search("does not agree with its manifest|is no manifest of a release", checked(release)[0])
