"""The budgets of an S-DHC configuration or release, for tuning and attribute losses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

from privacy.accounting.composition import read_spend
from privacy.analyses import attribute_loss_s_dhc as attribute_loss
from privacy.noise.exact import parse_exact
from privacy.noise.laws import Definition
from privacy.noise.margins import margin_of_error
from privacy.s_dhc.stability import CHANGES, Query, Stability
from tasks.errors import Refused
from tasks.records.files import read_text
from tasks.releases.manifest import noise_law, read_manifest, require_release
from tasks.s_dhc.configuration import read_configuration
from tasks.s_dhc.tables import TABLES

TITLE = "Supplemental DHC by PHSafe"  # `release` in manifests
FILES = ("config.json", "manifest.json")
ALPHA_90 = Fraction(1, 10)


@dataclass(frozen=True)
class Budgets:
    """The queries of a run with their budgets, and the file that they come from."""

    source: str
    definition: Definition
    stability: Stability
    queries: tuple[Query, ...]


def is_of_s_dhc(path: Path) -> bool:
    """Return whether a file or folder is a config.json or a release of the S-DHC."""
    file = _file(path)
    try:
        if file.name == FILES[1]:
            return bool(read_manifest(file.parent).get("release") == TITLE)
        found = json.loads(read_text(file))
    except (Refused, OSError, ValueError, RecursionError):
        return False  # its reader says why
    return isinstance(found, dict) and {"privacy_budget", "tau"} <= found.keys()


def read_budgets(path: Path) -> Budgets:
    """Return the budgets of a config.json, a release, its manifest.json, or the folder of either.

    Raises Refused for infinite budgets, and for a file of another system.
    """
    file = _file(path)
    return budgets_of_release(file.parent) if file.name == FILES[1] else budgets_of_configuration(file)


def budgets_of_configuration(path: Path, run: Mapping[str, Any] | None = None) -> Budgets:
    """Return the budgets of a config.json. run: keys that it lacks. Raises Refused for faults and infinite budgets."""
    configuration = read_configuration(path, run)
    configuration.spend()  # refuses infinite budgets
    queries = tuple(each.query for each in configuration.queries())
    return Budgets(str(path), configuration.definition, configuration.stability, queries)


def budgets_of_release(release: Path) -> Budgets:
    """Return the budgets of a release. Raises Refused unless it is an S-DHC release with noise."""
    require_release(release)
    manifest = read_manifest(release)
    try:
        definition = read_spend(manifest["spent"]).definition
        queries, stability = queries_of(manifest), {each: each for each in get_args(Stability)}[manifest["stability"]]
    except (KeyError, TypeError, ValueError):
        raise Refused(f"{release} is not a release of the Supplemental DHC with noise") from None
    return Budgets(str(release), definition, stability, tuple(queries.values()))


def _file(path: Path) -> Path:
    """Return the file with budgets in a folder, or the file itself."""
    return next((path / name for name in FILES if (path / name).is_file()), path)


def queries_of(manifest: Mapping[str, Any]) -> dict[str, Query]:
    """Return the queries that a manifest states, by name; a table has the tau stated for its truncation."""
    found = {}
    for name, facts in manifest["queries"].items():
        table = TABLES[name.partition("/")[0]]
        tau = int(manifest["truncation"][table.name]) if table.counts == "persons" else None
        found[name] = Query(f"sdhc/{name}", tau, parse_exact(facts["budget"]))
    return found


def query_facts(query: Query, definition: Definition, stability: Stability) -> dict[str, Any]:
    """Return the facts about a query for a manifest."""
    law = query.law(definition, stability)
    return {
        "budget": str(query.budget),
        "tau": query.tau,
        "distance": query.scale(definition, stability),
        "norm": "squared L2" if definition == "zcdp" else "L1",
        **noise_law(law),
        "margin": margin_of_error(law),
        "margin_90": margin_of_error(law, 1, ALPHA_90),
        "loss": {change.key: str(query.loss(change, definition, stability)) for change in CHANGES},
    }


def tables_of(budgets: Budgets) -> tuple[attribute_loss.TableSpend, ...]:
    """Return the bounded rho of each table: twice its person counts' budgets, plus its unit counts' budgets.

    A unit count's stability of 2 covers the old and the new row of a unit, so its budget is not doubled. Noise of
    another stability counts with the budget that gives the same noise at the program's stability. Raises Refused under
    pure DP.
    """
    if budgets.definition != "zcdp":
        raise Refused(
            f"{budgets.source}: attribute loss of the S-DHC is defined for privacy_defn zcdp, not {budgets.definition}"
        )
    names = attribute_loss.TABLES  # PH5_num and PH8_num are made of PH4 and PH7
    join, unit = dict.fromkeys(names, Fraction(0)), dict.fromkeys(names, Fraction(0))
    tau: dict[str, int | None] = dict.fromkeys(names)
    for query in budgets.queries:
        name = query.name.split("/")[1].partition("_")[0]
        same_noise = query.budget * query.scale("zcdp", "program") / query.scale("zcdp", budgets.stability)
        if query.tau is None:
            unit[name] += same_noise
        else:
            join[name] += 2 * same_noise
            tau[name] = query.tau
    return tuple(attribute_loss.TableSpend(name, join[name], unit[name], tau[name]) for name in names)
