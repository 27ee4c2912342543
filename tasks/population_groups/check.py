"""Checks of releases of all SafeTabs: the laws of a level's queries, and the margins of its counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from privacy.noise.exact import parse_exact
from privacy.noise.laws import Law
from privacy.noise.laws import law as law_of
from privacy.noise.sampler import check_law
from tasks.lifecycle.check import Check, wrong_law
from tasks.lifecycle.release_database import ReleaseDatabase

KEYS = "REGION_TYPE, REGION_ID, ITERATION_CODE"


def check_laws(name: str, level: Mapping[str, Any], definition: Any, *faults: str) -> Check:
    """Recompute each query's law from its budget and the stability; `faults` were found before."""
    found = list(faults)
    for query, stated in level["queries"].items():
        found += wrong_law(query, query_law(definition, level, query), stated)
    return Check(f"laws of {name}", f"stability {level['stability']}", tuple(found))


def query_law(definition: Any, level: Mapping[str, Any], query: str) -> Law:
    """Return the law of a query. Raises ValueError for one that no run could have drawn from."""
    law = law_of(definition, parse_exact(level["queries"][query]["budget"]), level["stability"])
    check_law(law)
    return law


def wrong_margins(
    database: ReleaseDatabase,
    manifest: Mapping[str, Any],
    name: str,
    counts: str,
    margins: Callable[[str], Mapping[str, set[int]]],
) -> Iterator[str]:
    """Compare the margins of a level's counts with those of their laws; a coterminous region may have a donor's.

    counts: a query of REGION_TYPE, REGION_ID, MOE, and `kind`, the kind of a count. margins: returns those that the
    counts of a level can have, by their kind.
    """
    regions = [member.split(" ", 1) for members in manifest["coterminous_sets"] for member in members]
    columns = {"REGION_TYPE": [kind for kind, _ in regions], "REGION_ID": [code for _, code in regions]}
    database.register("sets", pa.table({key: pa.array(column, pa.string()) for key, column in columns.items()}))
    rows = database.execute(
        f"SELECT kind, MOE, sets.REGION_ID IS NOT NULL AS shared, count(*) FROM ({counts}) "
        "LEFT JOIN sets USING (REGION_TYPE, REGION_ID) GROUP BY ALL"
    ).fetchall()
    own, donors = margins(name), [margins(other) for other in manifest["levels"] if other.endswith(name[-3:])]
    for kind, margin, shared, number in rows:
        allowed = own[kind].union(*(donor.get(kind, ()) for donor in donors if shared))
        if margin not in allowed:
            yield f"{number:,} counts of {kind} have the margin {margin}, not {sorted(allowed)}"
