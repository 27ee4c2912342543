"""Checks of releases of all SafeTabs: the laws of a level's queries, and the regions that may have a donor's counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb

from privacy.noise.exact import parse_exact
from privacy.noise.laws import Law
from privacy.noise.laws import law as law_of
from privacy.noise.sampler import check_law
from tasks.lifecycle.check import Check
from tasks.lifecycle.manifest import noise_law


def check_laws(name: str, level: Mapping[str, Any], definition: Any, *faults: str) -> Check:
    """Recompute each query's law from its budget and the stability; `faults` were found before."""
    found = list(faults)
    for query, stated in level["queries"].items():
        expected = noise_law(query_law(definition, level, query))
        found += [
            f"{query}: {key} is {value}, not {stated[key]}" for key, value in expected.items() if stated[key] != value
        ]
    return Check(f"laws of {name}", f"stability {level['stability']}", tuple(found))


def query_law(definition: Any, level: Mapping[str, Any], query: str) -> Law:
    """Return the law of a query. Raises ValueError for one that no run could have drawn from."""
    law = law_of(definition, parse_exact(level["queries"][query]["budget"]), level["stability"])
    check_law(law)
    return law


def create_sets(database: duckdb.DuckDBPyConnection, manifest: Mapping[str, Any]) -> None:
    """Create the table `sets` of coterminous regions: REGION_TYPE, REGION_ID."""
    regions = [member.split(" ", 1) for members in manifest["coterminous_sets"] for member in members]
    database.execute("CREATE OR REPLACE TABLE sets (REGION_TYPE VARCHAR, REGION_ID VARCHAR)")
    if regions:
        database.executemany("INSERT INTO sets VALUES (?, ?)", regions)


def donors(manifest: Mapping[str, Any], name: str) -> list[str]:
    """Return the levels whose counts coterminous regions of a level may have: all of its iteration level."""
    return [other for other in manifest["levels"] if other.endswith(name[-3:])]
