"""Attribute losses: their unit, and the queries of a system with their budgets."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from flows.reports.figures import up
from flows.reports.tuning.plan import first_plan
from privacy.accounting.states import STATES_US
from privacy.analyses.attribute_loss_dhca import (
    ATTRIBUTES,
    HOUSEHOLD_ATTRIBUTES,
    GroupLevel,
    Record,
    losses,
    losses_of_household,
)
from privacy.noise.laws import Definition
from spine.allocations import Allocation
from spine.declaration.declaration import read_declaration
from spine.noise import parameter, record_cost
from spine.production import allocation
from spine.settings import Jurisdiction
from spine.top_down.histogram import Product
from tasks.attribute_loss.described import describe
from tasks.errors import Refused
from tasks.records.declarations import find_declaration, read_raw
from tasks.releases.manifest import MANIFEST
from tasks.safetab.configuration import SafeTabConfiguration, parse_configuration
from tasks.safetab.households.run import SafeTabHConfiguration
from tasks.safetab.iterations import Iterations
from tasks.safetab.levels import Level
from tasks.safetab.parameters import read_parameter_files, stability_parts
from tasks.safetab.persons.run import SafeTabPConfiguration
from tasks.synth.params import HOUSEHOLDS_CONFIG
from tasks.synth.params import PRODUCTION as PRODUCTION_FILES
from tasks.top_down.run_plan import SCHEMAS

PRODUCTION = "production (NMFv5)"
PERSONS = ("Detailed DHC-A", "person", ATTRIBUTES)
HOUSEHOLDS = ("Detailed DHC-B", "household", HOUSEHOLD_ATTRIBUTES)
Queries = Mapping[
    str, GroupLevel
]  # a level's, by table; the Detailed DHC-A has one, which `losses` splits in two steps


@dataclass(frozen=True)
class Scale:
    """The unit of the losses in one report, and the decimal places of a budget in its tables, which is rounded up.

    in_budget: show rho or epsilon; otherwise an attacker's largest number of right answers in 100, rounded up
    (`privacy/accounting/attacker.py`).
    """

    definition: Definition
    decimals: int
    in_budget: bool

    @property
    def budget(self) -> str:
        """The unit of the losses in --json, and of tables of budgets."""
        return {"zcdp": "bounded rho (zCDP)", "puredp": "bounded epsilon (pure DP)"}[self.definition]

    @property
    def unit(self) -> str:
        """The unit of the tables, for a note under them."""
        if self.in_budget:
            return self.budget
        return (
            "right answers in 100, at most, of an attacker who knows all else, with 5 false alarms in 100 (5: nothing "
            f"is learned; 100: nothing is excluded). They do not add up; --budget prints the {self.budget}, which does"
        )

    def text(self, loss: Fraction) -> str:
        """Return the loss for a table."""
        if not self.in_budget:
            return up(_right_answers(self.definition, loss), 1)
        return up(loss, self.decimals)

    def json(self, loss: Fraction) -> dict[str, Any]:
        """Return the loss as a number, exactly, and as an attacker's right answers in 100."""
        return {"loss": float(loss), "exact": str(loss), "attacker": _right_answers(self.definition, loss)}


@cache
def _right_answers(definition: Definition, loss: Fraction) -> float:
    from privacy.accounting.attacker import detection

    return 100 * detection(definition, float(loss))


@dataclass(frozen=True)
class SafeTabQueries:
    """The queries of a SafeTab: by jurisdiction and level, budgets and the most groups that a record is in.

    attributes: those of a record. gamma: the share of step 1; None for households. race_codes: the most of a record.
    iterations: from parameter files, if any; they make groups exact.
    """

    product: str
    record_noun: str
    attributes: tuple[str, ...]
    source: str
    definition: Definition
    levels: Mapping[Jurisdiction, Mapping[Level, Queries]]
    gamma: Fraction | None
    race_codes: int
    iterations: Iterations | None

    @property
    def sets(self) -> list[str]:
        """The sets of attributes to show: each by itself, and two together."""
        return [*self.attributes, "Race,Ethnicity", f"{self.attributes[0]},Race"]

    def record(self, values: Mapping[str, str], level: Level) -> Record:
        """Return a described person or householder at a level. Raises Refused as `describe` does."""
        return describe(values, level, self.race_codes, self.iterations)

    def losses(
        self, queries: Queries, attributes: frozenset[str], record: Record | None, crossed: frozenset[str]
    ) -> dict[str, Fraction]:
        """Return the loss of each query of a level."""
        if self.gamma is None:
            return losses_of_household(queries, attributes, record, crossed)
        (level,) = queries.values()
        return losses(level, self.gamma, attributes, record, crossed)


def persons(path: Path | None) -> SafeTabQueries:
    """Read the queries of the Detailed DHC-A from a config.json or its directory, by default the production's."""
    if path is None:
        plan = first_plan(None, None, None, None)
        groups = max(2, plan.race_codes)
        levels = {level: {"": GroupLevel(*level, budget, groups, 1)} for level, budget in plan.levels.items()}
        return SafeTabQueries(*PERSONS, plan.source, plan.definition, {"us": levels}, plan.gamma, plan.race_codes, None)
    found, iterations = read_parameter_files(path, SafeTabPConfiguration)
    read, gamma = _levels(found, iterations, lambda level: {"": found.budget(level)}), found.stage_1_fraction
    return SafeTabQueries(*PERSONS, str(path), found.privacy_defn, read, gamma, found.max_race_codes, iterations)


def households(path: Path | None) -> SafeTabQueries:
    """Read the queries of the Detailed DHC-B from a config.json or its directory, by default the production's."""
    found, iterations = read_households(path)

    def budgets(level: Level) -> dict[str, Fraction]:
        return {table.name: found.table_budget(table.key, level) for table in found.tables(level)}

    levels, source = _levels(found, iterations, budgets), str(path or PRODUCTION)
    return SafeTabQueries(*HOUSEHOLDS, source, found.privacy_defn, levels, None, found.max_race_codes, iterations)


def _levels(
    found: SafeTabConfiguration, iterations: Iterations | None, budgets: Callable[[Level], dict[str, Fraction]]
) -> dict[Jurisdiction, dict[Level, Queries]]:
    """Return the queries of a configuration; budgets: those of a level, by table."""
    return {
        jurisdiction: {
            level: {
                table: GroupLevel(*level, budget, *stability_parts(found, iterations, level))
                for table, budget in budgets(level).items()
            }
            for level in found.levels(jurisdiction)
        }
        for jurisdiction in found.jurisdictions
    }


def read_households(source: Path | None) -> tuple[SafeTabHConfiguration, Iterations | None]:
    """Read a configuration of the Detailed DHC-B as `read_parameter_files` does; by default the production's."""
    if source is None:
        runs = {"run_us": True, "run_pr": True, "reader": "csv", "state_filter_us": list(STATES_US)}
        text = (PRODUCTION_FILES / HOUSEHOLDS_CONFIG).read_text("utf-8").rstrip().removesuffix("}")
        found, faults = parse_configuration(f"{text}, {json.dumps(runs)[1:]}", SafeTabHConfiguration)
        if found is None:
            raise Refused(faults[0].rule)
        return found, None
    if source.name == MANIFEST or (source / MANIFEST).exists():
        raise Refused(f"{source} is a release: give its configuration, which has budgets and thresholds")
    return read_parameter_files(source, SafeTabHConfiguration)


@dataclass(frozen=True)
class TopDownQueries:
    """The queries of a table of the TopDown Algorithm: its axes, and the budget of every level and query.

    bypassed: whether the spine may be bypassed (paper, section 5). root: whether the top is one geounit of several
    children; otherwise a record may move between roots, and a root may be bypassed too.
    """

    title: str
    source: str
    product: Product
    allocation: Allocation
    bypassed: bool
    root: bool

    @property
    def attributes(self) -> tuple[str, ...]:
        """The axes, and the level of the leaves, which is the place of a record."""
        return (*(axis.name for axis in self.product.axes), self.levels[-1])

    @property
    def levels(self) -> list[str]:
        """The levels, top first."""
        return list(self.allocation.levels)

    def losses(self, level: str, attributes: frozenset[str]) -> dict[str, Fraction]:
        """Return the loss of each query in a geounit with its level's own share, if a record is replaced.

        It is the query's whole cost if its answer can change, or nothing. A record that moves may change its geounit on
        every level except that of a single root, including the level of the states, whose parts are in a spine.
        """
        moves = self.levels[-1] in attributes and not (self.root and level == self.levels[0])
        share = self.allocation.levels[level]
        return {
            query: record_cost(self.allocation, [parameter(self.allocation, share, alpha)])
            if moves or attributes & self.product.asked(query).keys()
            else Fraction(0)
            for query, alpha in self.allocation.queries[level].items()
        }

    def most(self, attributes: frozenset[str]) -> Fraction:
        """Return the largest cost of a replaced record on any path from the root to a leaf.

        A bypass answers the queries of a level with its share and those of levels below it, which are left without a
        share. So the levels of a path are runs, each answered by its first level; the most expensive runs are found
        from the leaves up.
        """
        spent = [self.allocation.budget * share for share in self.allocation.levels.values()]
        asked = [
            sum(self.losses(level, attributes).values()) / own for level, own in zip(self.levels, spent, strict=True)
        ]
        best, count = [Fraction(0)] * (len(spent) + 1), len(spent)
        for first in reversed(range(count)):
            last = count if self.bypassed and not (self.root and first == 0) else first + 1
            best[first] = max(asked[first] * sum(spent[first:end]) + best[end] for end in range(first + 1, last + 1))
        return best[0]


def histograms(path: Path | None) -> list[TopDownQueries]:
    """Read the queries of a declaration, by default those of the redistricting data's production, US."""
    if path is None:
        source = "production of the redistricting data, US"
        return [
            TopDownQueries(
                f"TopDown, {name}", source, product, allocation(product.name, "us"), bypassed=True, root=True
            )
            for name, product in SCHEMAS.items()
        ]
    found, faults = read_declaration(read_raw(find_declaration(str(path))))
    if found is None:
        raise Refused(f"{path}: {faults[0].key}: {faults[0].text}")
    # A declared root may have one child, which only the table of leaves shows; it is not read here.
    title, bypassed = f"TopDown, {found.form.name}", found.form.bypass
    return [TopDownQueries(title, str(path), found.product, found.allocation, bypassed, root=False)]
