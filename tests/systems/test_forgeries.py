"""`das check` of forged releases: each statement and each table of each system in turn.

A forgery is found, or `das check` itself lists its part as not checked. What is listed is listed here too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import redirect_stdout
from fnmatch import fnmatchcase
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from forgeries import Rows, changing, copied, forgeries, seal, stating

from flows.commands.check import _checks as check_parts
from flows.commands.check import check
from flows.reports.terminal import printing
from tasks.errors import Refused
from tasks.releases.manifest import read_any_manifest, read_manifest
from tests.systems.cases import CASES, Case
from tests.systems.conftest import Finished, every

Finish = Callable[[Case], Finished]


def checked(release: Path) -> tuple[str, list[str]]:
    """Check a release; return why it is refused, or "", and the parts that are not checked."""
    out, why = StringIO(), ""
    try:
        with redirect_stdout(out), printing(as_json=True):
            check(release)
    except Refused as refused:
        why = str(refused)
    return why, [each["part"] for each in json.loads(out.getvalue())["not_checked"]] if out.getvalue() else []


def is_found(release: Path) -> bool:
    """Whether a check finds a fault, or the release is refused; the checks behind the first fault are not made."""
    try:
        return any(each.faults for each in check_parts(release, read_manifest(release)))
    except Exception:  # whatever a manifest holds, `das check` refuses it
        return True


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
@pytest.mark.parametrize("most", [2, pytest.param(8, marks=pytest.mark.ci), pytest.param(0, marks=pytest.mark.slow)])
def test_each_forgery_is_found_or_not_provable(finished: Finish, tmp_path: Path, case: Case, most: int) -> None:
    """Some of them, spread over statements and tables, 2 and 8 more; all where `most` is 0."""
    missed, found = [], forgeries(finished(case).release)
    for number, forgery in enumerate(found[int(most > 2) :: -(-len(found) // most)] if most else found):
        release = copied(finished(case).release, tmp_path / str(number))
        forgery.forge(release)
        if not (is_found(release) or is_part_of(forgery.part, case.not_provable)):
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


def one_more_housing_unit(rows: Rows) -> Rows:
    return [{**rows[0], "hu": rows[0]["hu"] + 1}, *rows[1:]]


def with_counts_twice(file: str) -> Callable[[Path], None]:
    """Give a table a second column of counts, others behind the first; readers differ in which they take."""

    def forge(release: Path) -> None:
        path = release / file
        if file.endswith(".parquet"):
            table = pq.read_table(path)
            path.unlink()
            pq.write_table(table.append_column("COUNT", pc.add(table["COUNT"], 1000)), path)
        else:
            header, *lines = path.read_text("utf-8").splitlines()
            path.unlink()
            path.write_text("\n".join([f"{header}|COUNT", *(f"{line}|1000" for line in lines)]) + "\n", "utf-8")
        seal(release, read_any_manifest(release))

    return forge


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
    ("top-down", changing(["measurements/blocks/23.parquet"], one_more_housing_unit)),
    ("detailed-dhca", with_counts_twice("t1/usa-1.csv")),
    ("detailed-dhca", with_counts_twice("parquet/t1/usa-1.parquet")),
]


@pytest.mark.parametrize(("system", "forge"), NAMED)
def test_a_release_that_once_agreed_is_found(
    finished: Finish, tmp_path: Path, system: str, forge: Callable[[Path], None]
) -> None:
    (case,) = (case for case in CASES if case.name == system)
    release = copied(finished(case).release, tmp_path / "release")
    forge(release)
    assert is_found(release)
