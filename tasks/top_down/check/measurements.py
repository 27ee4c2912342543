"""Check the noisy measurements of a TopDown release: their laws, and the budget along every path of the spine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb

from tasks.lifecycle.check import Check
from tasks.lifecycle.manifest import parse_exact
from tasks.top_down.check.counts import parquet
from tasks.top_down.check.files import has_measurements, spine_files
from tasks.top_down.measure.description import FOLDER
from tasks.top_down.run_plan import US

LAW = "query, share, variance_numerator, variance_denominator, variance"


def check_measurements(release: Path, manifest: Mapping[str, Any], product: str) -> Iterator[Check]:
    """Check the law of every measurement, and the shares of the budget along the path to every block."""
    if not has_measurements(manifest):
        return
    entry, folder = manifest["products"][product], release / FOLDER / product
    expected: dict[str, set[tuple[Any, ...]]] = {}
    for noise in entry["noise"]:
        exact = parse_exact(noise["sigma_squared" if "sigma_squared" in noise else "scale"])
        law = (noise["query"], noise["share"], str(exact.numerator), str(exact.denominator), noise["variance"])
        expected.setdefault(noise["level"], set()).add(law)
    with duckdb.connect() as database:
        faults, number = [], 0
        for level, state in spine_files(manifest, product):
            laws = f"SELECT {LAW}, count(*) FROM {parquet(folder / level / f'{state}.parquet')} GROUP BY ALL"
            for query, share, *parameters, count in database.execute(laws).fetchall():
                number += count
                if (query, share, *parameters) not in expected[level]:
                    which = f"{count:,} of {query} with share {share}"
                    faults.append(f"level {level}, state {state}: {which} have a law that is not in the manifest")
        yield Check(f"laws of the measurements of {product}", f"{number:,} measurements", tuple(faults))
        shares = {level: parse_exact(share) for level, share in entry["shares"].items() if level != US}
        yield _check_paths(database, release, product, manifest["states"], shares)


def _check_paths(
    database: duckdb.DuckDBPyConnection, release: Path, product: str, states: list[str], shares: Mapping[str, Fraction]
) -> Check:
    """Check that the shares of every block and of the geounits above it sum to those of all levels."""
    total, faults, blocks = sum(shares.values(), Fraction(0)), [], 0
    *_, lowest = shares
    for state in states:
        columns, joins = [], []
        for number, level in enumerate(shares):
            joined = f"level{number}"
            path = parquet(release / FOLDER / product / level / f"{state}.parquet")
            own = parquet(release / "invariants" / product / level / f"{state}.parquet")
            width = f"(SELECT coalesce(max(length(geounit)), 0) FROM {own})"
            distinct = f"SELECT DISTINCT geounit::VARCHAR AS geounit, share::VARCHAR AS share FROM {path}"
            joins.append(f"LEFT JOIN ({distinct}) AS {joined} ON {joined}.geounit = left(block.geounit, {width})")
            columns.append(f"coalesce({joined}.share, '0')")
        block = parquet(release / "invariants" / product / lowest / f"{state}.parquet")
        paths = f"SELECT {', '.join(columns)}, count(*) FROM {block} AS block {' '.join(joins)} GROUP BY ALL"
        for *path_shares, count in database.execute(paths).fetchall():
            blocks += count
            spent = sum(map(parse_exact, path_shares), Fraction(0))
            if spent != total:
                faults.append(f"state {state}: the measurements of {count:,} blocks share {spent}, not {total}")
    return Check(f"shares along the paths of {product}", f"{blocks:,} blocks", tuple(faults))
