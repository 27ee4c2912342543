"""The parameters directory of SafeTab-P, checked for noise that can be guaranteed. Public."""

from __future__ import annotations

from typing import TypeAlias

from privacy.accounting.composition import query_budgets
from privacy.noise.laws import law
from privacy.noise.sampler import check_law
from tasks.inputs.configuration import Configuration, budget_key, parse_configuration
from tasks.inputs.findings import Finding
from tasks.population_groups import parameters
from tasks.population_groups.iterations import MAPPING_FILE, Iterations

Parameters: TypeAlias = parameters.Parameters[Configuration]


def read_parameters(params: str) -> tuple[Parameters | None, list[Finding]]:
    """Read config.json and the iteration files as `parameters.read_parameters` does, for the queries of SafeTab-P."""
    return parameters.read_parameters(params, parse_configuration, _check_levels)


def _check_levels(configuration: Configuration, iterations: Iterations) -> list[Finding]:
    findings = []
    asked = configuration.jurisdictions
    for level in (level for jurisdiction in asked for level in configuration.levels(jurisdiction)):
        try:
            stability = iterations.stability(level, configuration.max_race_codes)
        except ValueError as error:
            findings.append(Finding(MAPPING_FILE, f"{level.name}: {error}"))
            continue
        if configuration.budgets[level] == "Infinity":
            continue
        budgets = query_budgets(configuration.budget(level), configuration.stage_1_fraction)
        try:
            for budget in (budgets.total_only, budgets.stage_1, budgets.stage_2):
                check_law(law(configuration.privacy_defn, budget, stability))
        except ValueError as error:
            findings.append(Finding("config.json", f"{level.name}: {error}", budget_key(level)))
    return findings
