"""The queries of a release and their laws, as its manifest states them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privacy.noise.exact import parse_exact
from privacy.noise.laws import DiscreteGaussian, Law, TwoSidedGeometric
from privacy.noise.sampler import check_law
from privacy.s_dhc.stability import Query
from tasks.s_dhc.tables import TABLES


def law_of(facts: Mapping[str, Any]) -> Law:
    """Return the law that a manifest states of a query. Raises ValueError for one that nobody could draw."""
    gaussian = facts["law"] == DiscreteGaussian.name
    parameter = parse_exact(facts[DiscreteGaussian.parameter_name if gaussian else TwoSidedGeometric.parameter_name])
    law: Law = DiscreteGaussian(parameter) if gaussian else TwoSidedGeometric(parameter)
    check_law(law)
    return law


def queries_of(manifest: Mapping[str, Any]) -> dict[str, Query]:
    """Return the queries that a manifest states, by name; a table has the tau that is stated of its truncation."""
    found = {}
    for name, facts in manifest["queries"].items():
        table = TABLES[name.partition("/")[0]]
        tau = int(manifest["truncation"][table.name]) if table.counts == "persons" else None
        found[name] = Query(f"sdhc/{name}", tau, parse_exact(facts["budget"]))
    return found
