"""The same secret and inputs give the same tables of a release: their digests are kept beside this file.

A change of the estimation that moves one answer, count or margin fails here. Digests are of values, so they depend on
no version of a library and no time. They are written anew by
    PYTHONPATH=.:tests python tests/tasks/top_down/test_release_tables.py
"""

from __future__ import annotations

import json
import random
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import pytest
from top_down_inputs import begin, design, finish, remark

from flows.commands.check import check

DIGESTS = Path(__file__).with_name("release_tables.json")
# Each spine with both estimators and both mechanisms; a nation, a state by itself, Puerto Rico.
CASES: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "optimized": (("31", "46"), {"nation": True, "microdata": "text"}),
    "optimized gls": (("31", "46"), {"nation": True, "estimator": "gls", "definition": "puredp", "pl94": True}),
    "conventional": (("31", "46"), {"kind": "conventional", "definition": "puredp"}),
    "conventional gls": (("72",), {"kind": "conventional", "estimator": "gls"}),
    "aian": (("46",), {"kind": "aian", "measurements": "none"}),
    "aian gls": (("31", "46"), {"kind": "aian", "nation": True, "estimator": "gls", "definition": "puredp"}),
    "layout": (("46",), {"measurements": "nmf"}),
}
GRF = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE", "TABBLK", "PLACEFP", "COUSUBFP", "AIANNHCE")
PERSON = ("RTYPE", "GQTYPE_PL", "VOTING_AGE", "CENHISP", "CENRACE")


def write_inputs(folder: Path, states: tuple[str, ...]) -> None:
    """Write some 30 blocks a state, one county with an AIAN area, and their records: of `random` alone, as text."""
    draw = random.Random(4)
    grf, quarters, persons, units, totals = [GRF], [], [], [], []
    for state in states:
        first = len(persons)
        for county, tract, number in [
            (c, t, n) for c in ("001", "003") for t in ("000100", "000200") for n in range(8)
        ]:
            group, block = str(1 + number // 4), f"{1 + number // 4}{number:03d}"
            place, cousub = draw.choice(("99999", "10000", "20000")), draw.choice(("10010", "10030"))
            area = "2430" if county == "003" and number < 3 and state != "72" else "9999"
            grf.append((state, county, tract, group, block, place, cousub, area))
            housing, facilities = draw.choice((0, 1, 4, 15)), [int(draw.random() < 0.05) for _ in range(7)]
            if not housing + sum(facilities):
                continue
            quarters.append((state + county + tract + block, housing, *facilities))
            where = (state, county, tract, group, block)
            occupied = [draw.random() < 0.8 for _ in range(housing)]
            units += [(*where, "2", "1" if yes else "2") for yes in occupied]
            units += [(*where, "4", "0")] * sum(facilities)
            kinds = [0] * draw.randint(sum(occupied), 3 * sum(occupied))
            kinds += [kind for kind, many in enumerate(facilities, 1) for _ in range(many * draw.randint(1, 40))]
            persons += [(*where, "5" if kind else "3", str(kind), *_traits(draw, kind)) for kind in kinds]
        totals.append((state, len(persons) - first))
    for name, sign, head, rows in (
        ("GRF-C.txt", "|", grf[0], grf[1:]),
        ("quarters.csv", ",", ("tabblk", "hu", *(f"gq{kind}" for kind in range(1, 8))), quarters),
        ("states.csv", ",", ("state", "pop"), totals),
        ("persons.txt", "|", (*GRF[:5], *PERSON), persons),
        ("units.txt", "|", (*GRF[:5], "RTYPE", "HH_STATUS"), units),
    ):
        (folder / name).write_text("".join(sign.join(map(str, row)) + "\n" for row in (head, *rows)))
    remark(folder)


def _traits(draw: random.Random, kind: int) -> tuple[str, ...]:
    """Voting age, Hispanic origin and race; nobody under 18 is in nursing facilities (3)."""
    race = draw.choice((1, 1, 1, 1, 2, 2, 3, 4, 7, 8, 22, 63))
    return "2" if kind == 3 or draw.random() < 0.75 else "1", draw.choice("1112"), f"{race:02d}"


def table_digests(folder: Path, data: Path, options: dict[str, Any]) -> dict[str, str]:
    """The digest of the values of a release's tables by their folder: in MEASUREMENTS, histograms/PRODUCT, ...

    `das check` finds no fault in the release.
    """
    budget = {"budget": Fraction(20)} if options.get("definition") == "puredp" else {}
    jurisdiction: Any = "pr" if (data / "states.csv").read_text().startswith("state,pop\n72") else "us"
    run = begin(
        folder, data, design(jurisdiction, **{"nation": None if jurisdiction == "pr" else False} | budget | options)
    )
    staged = finish(run, folder)
    check(staged)
    found: dict[str, Any] = {}
    for path in sorted(staged.rglob("*")):
        name = path.relative_to(staged)
        if path.suffix == ".parquet" and path.is_file():
            table = pq.ParquetFile(path).read()
            content = f"{name} {table.column_names} {[str(kind) for kind in table.schema.types]} {table.to_pydict()}"
        elif (path.suffix == ".txt" and path.name != "README.txt") or name.match("cells/*.csv"):
            content = f"{name} {path.read_text()}"
        else:  # manifest, pages, names
            continue
        found.setdefault("/".join(name.parts[:2] if len(name.parts) > 2 else name.parts[:1]), sha256()).update(
            content.encode()
        )
    return {name: digest.hexdigest()[:16] for name, digest in found.items()}


def case_digests(folder: Path, case: str) -> dict[str, str]:
    """The digests of a case, from nothing."""
    states, options = CASES[case]
    data = folder / "data"
    data.mkdir(parents=True)
    write_inputs(data, states)
    folder.chmod(0o700)
    return table_digests(folder, data, options)


@pytest.mark.parametrize(
    "case", [case if case == "optimized" else pytest.param(case, marks=pytest.mark.ci) for case in CASES]
)
def test_tables_are_those_of_before(tmp_path: Path, case: str) -> None:
    assert case_digests(tmp_path, case) == json.loads(DIGESTS.read_text())[case]


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        found = {case: case_digests(Path(folder) / case.replace(" ", "-"), case) for case in CASES}
    DIGESTS.write_text(json.dumps(found, indent=1) + "\n")
