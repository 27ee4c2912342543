"""The budgets of an S-DHC configuration, or of a release, as the attribute-loss analyses take them."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

from privacy.accounting.composition import read_spend
from privacy.analyses.attribute_loss_s_dhc import Table
from privacy.noise.laws import Definition
from privacy.s_dhc.stability import Query, Stability
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.manifest import read_manifest, require_release
from tasks.s_dhc.check import queries_of
from tasks.s_dhc.configuration import read_configuration

PUBLISHED = tuple(f"PH{number}" for number in range(1, 9))  # PH5_num and PH8_num are made of PH4 and PH7


def tables_of_configuration(path: Path) -> tuple[Table, ...]:
    """Return the bounded rho of each table of a config.json. Raises Refused where it has a fault, or is not zCDP."""
    configuration = read_configuration(path)
    configuration.spend()  # refuses infinite budgets
    queries = [each.query for each in configuration.queries()]
    return _tables(str(path), configuration.definition, configuration.stability, queries)


def tables_of_release(release: Path) -> tuple[Table, ...]:
    """Return the bounded rho of each table of a release. Raises Refused where it is none of the S-DHC with noise."""
    require_release(release)
    manifest = read_manifest(release)
    try:
        definition = read_spend(manifest["spent"]).definition
        queries = queries_of(manifest)
    except (KeyError, TypeError, ValueError):
        raise Refused(f"{release} is not a release of the Supplemental DHC with noise") from None
    return _tables(str(release), definition, manifest["stability"], queries.values())


def _tables(source: str, definition: Definition, stability: Stability, queries: Iterable[Query]) -> tuple[Table, ...]:
    """Return twice the summed budgets of a table's person counts, and once those of its unit counts.

    A unit count's stability of 2 covers the old and the new row of a unit already, so its budget is not doubled. Of
    noise by another stability the budgets are those with which the program's stability gives the same noise.
    """
    if definition != "zcdp":
        raise Refused(f"{source}: attribute loss of the S-DHC is defined for privacy_defn zcdp, not {definition}")
    join, unit = dict.fromkeys(PUBLISHED, Fraction(0)), dict.fromkeys(PUBLISHED, Fraction(0))
    tau: dict[str, int | None] = dict.fromkeys(PUBLISHED)
    for query in queries:
        name = query.name.split("/")[1].partition("_")[0]
        same_noise = query.budget * query.scale("zcdp", "program") / query.scale("zcdp", stability)
        if query.tau is None:
            unit[name] += same_noise
        else:
            join[name] += 2 * same_noise
            tau[name] = query.tau
    return tuple(Table(name, join[name], unit[name], tau[name]) for name in PUBLISHED)
