"""The released noisy measurements of a TopDown release: their laws, and the budget along every path of the spine."""

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
    """Check the law of every measurement, and what the measurements of a block and all above it share of the budget."""
    if not has_measurements(manifest):
        return
    told, folder = manifest["products"][product], release / FOLDER / product
    expected: dict[str, set[tuple[Any, ...]]] = {}
    for each in told["noise"]:
        exact = parse_exact(each["sigma_squared" if "sigma_squared" in each else "scale"])
        law = (each["query"], each["share"], str(exact.numerator), str(exact.denominator), each["variance"])
        expected.setdefault(each["level"], set()).add(law)
    with duckdb.connect() as database:
        faults, number = [], 0
        for level, state in spine_files(manifest, product):
            of = f"SELECT {LAW}, count(*) FROM {parquet(folder / level / f'{state}.parquet')} GROUP BY ALL"
            for query, share, *of_law, count in database.execute(of).fetchall():
                number += count
                if (query, share, *of_law) not in expected[level]:
                    faults.append(
                        f"level {level}, state {state}: {count:,} of {query} with share {share} are not of a law told"
                    )
        yield Check(f"laws of the measurements of {product}", f"{number:,} measurements", tuple(faults))
        shares = {level: parse_exact(share) for level, share in told["shares"].items() if level != US}
        yield _check_paths(database, release, product, manifest["states"], shares)


def _check_paths(
    database: duckdb.DuckDBPyConnection, release: Path, product: str, states: list[str], shares: Mapping[str, Fraction]
) -> Check:
    """Add up the shares of every block and the geounits that it lies in: always that of all levels."""
    total, faults, blocks = sum(shares.values(), Fraction(0)), [], 0
    *_, lowest = shares
    for state in states:
        columns, joins = [], []
        for at, level in enumerate(shares):
            here = f"release{at}"
            path = parquet(release / FOLDER / product / level / f"{state}.parquet")
            own = parquet(release / "invariants" / product / level / f"{state}.parquet")
            width = f"(SELECT coalesce(max(length(geounit)), 0) FROM {own})"
            once = f"SELECT DISTINCT geounit::VARCHAR AS geounit, share::VARCHAR AS share FROM {path}"
            joins.append(f"LEFT JOIN ({once}) AS {here} ON {here}.geounit = left(block.geounit, {width})")
            columns.append(f"coalesce({here}.share, '0')")
        block = parquet(release / "invariants" / product / lowest / f"{state}.parquet")
        of = f"SELECT {', '.join(columns)}, count(*) FROM {block} AS block {' '.join(joins)} GROUP BY ALL"
        for *path_shares, count in database.execute(of).fetchall():
            blocks += count
            spent = sum(map(parse_exact, path_shares), Fraction(0))
            if spent != total:
                faults.append(f"state {state}: the measurements of {count:,} blocks share {spent}, not {total}")
    return Check(f"shares along the paths of {product}", f"{blocks:,} blocks", tuple(faults))
