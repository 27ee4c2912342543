"""The parameters that SafeTEx varies, from a file, from options, or from production."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from flows.reports.figures import digits, fraction, pair
from privacy.accounting.composition import LevelBudget
from privacy.analyses.comparison_tables import GAMMA, PRODUCTION
from privacy.analyses.margin_budgets import least_budget
from privacy.analyses.tuning import LARGEST_MULTIPLICITY, level_laws, multiplicity_stability
from privacy.noise.laws import Definition
from privacy.noise.margins import margin_of_error
from spine.settings import Jurisdiction
from tasks.errors import Refused, refusing
from tasks.safetab.levels import Level, named_level, one_jurisdiction
from tasks.safetab.persons.level_budgets import Setting, read_settings

CHANCE = Fraction("0.9999")


@dataclass(frozen=True)
class BudgetPlan:
    """The parameters that SafeTEx varies.

    levels: their budgets; levels in `off` are not measured.
    race_codes: the race multiplicity, 1 to 8. It determines the stability of levels without their own in `stabilities`.
    target: a margin in counts or, if `relative`, as a share of the average count of a statistic.
    chance: the probability that a group of size 0 is suppressed, at least 1/2.
    thresholds: by level of a file, the noisy totals of step 1 from which a group has a table by age.
    """

    source: str
    jurisdiction: Jurisdiction
    definition: Definition
    levels: dict[Level, Fraction]
    gamma: Fraction = GAMMA
    race_codes: int = LARGEST_MULTIPLICITY
    target: Fraction = Fraction(1, 10)
    relative: bool = True
    chance: Fraction = CHANCE
    delta: Fraction = Fraction(1, 10**10)
    off: frozenset[Level] = frozenset()
    stabilities: dict[Level, int] | None = None
    thresholds: Mapping[Level, tuple[int, ...]] = field(default_factory=dict)

    def stability(self, level: Level) -> int:
        """Return the stability of a level."""
        return (self.stabilities or {}).get(level) or multiplicity_stability(self.race_codes)

    def level_budget(self, level: Level) -> LevelBudget:
        """Return the budget of a level with its stability."""
        return LevelBudget(self.levels[level], self.stability(level))

    def with_multiplicity(self, race_codes: int) -> BudgetPlan:
        """Return the plan with this race multiplicity, which then determines all stabilities."""
        with refusing():
            multiplicity_stability(race_codes)
        return replace(self, race_codes=race_codes, stabilities=None)

    def without(self, names: Sequence[str]) -> BudgetPlan:
        """Return the plan with these levels off."""
        off = frozenset(map(named_level, names))
        if missing := [level.name for level in off if level not in self.levels]:
            raise Refused(f"a level to switch off has no budget: {missing[0]}")
        if off == set(self.levels):
            raise Refused("all levels are off")
        return replace(self, off=off)

    def scaled(self, total: Fraction) -> BudgetPlan:
        """Return the plan with the budgets of the levels that are on scaled to this sum."""
        share = total / sum(budget for level, budget in self.levels.items() if level not in self.off)
        return replace(self, levels={level: budget * share for level, budget in self.levels.items()})


def first_plan(
    source: Path | None,
    levels: Sequence[str] | None,
    definition: Definition | None,
    jurisdiction: Jurisdiction | None,
) -> BudgetPlan:
    """Return the plan of a file, of `LEVEL=BUDGET` options, or of production.

    Raises Refused if two of these are given, or one is invalid.
    """
    if source is not None:
        if levels or definition:
            raise Refused(
                "a configuration has its own levels and definition: give either it or these options; "
                "to change one of its levels, move its slider on the page of --html"
            )
        return _plan_from_file(source, jurisdiction)
    if jurisdiction is not None:
        raise Refused("--jurisdiction needs a configuration")
    chosen = definition or "zcdp"
    return _plan_from_levels(levels, chosen) if levels else _production_plan(chosen)


def targeted(plan: BudgetPlan, margin: int | None, relative_error: str | None) -> BudgetPlan:
    """Return the plan with a target: a margin in counts, or a relative error as typed."""
    if margin is not None and relative_error is not None:
        raise Refused("give either --margin or --relative-error")
    if margin is None:
        return replace(plan, target=fraction(relative_error or "0.1", "relative error"), relative=True)
    if margin < 1:
        raise Refused(f"a target margin is a whole number of counts, 1 or more, not {margin}")
    return replace(plan, target=Fraction(margin), relative=False)


def chance_of_zeros(text: str) -> Fraction:
    """Return the typed chance that a group of size 0 is suppressed, at least 1/2. Raises Refused."""
    chance = fraction(text, "chance", below=Fraction(1))
    if chance < Fraction(1, 2):
        raise Refused(f"chance is a number from 0.5 to 1, not {text}")
    return chance


def _plan_from_file(path: Path, jurisdiction: Jurisdiction | None) -> BudgetPlan:
    settings = {setting.jurisdiction: setting for setting in read_settings(path)}
    if jurisdiction not in (None, *settings):
        raise Refused(f"{path} has the jurisdictions {', '.join(settings)}, not {jurisdiction!r}")
    setting: Setting = next(one for one in settings.values() if jurisdiction in (None, one.jurisdiction))
    with refusing():
        usual = multiplicity_stability(setting.race_codes)
    return BudgetPlan(
        source=setting.source,
        jurisdiction=setting.jurisdiction,
        definition=setting.definition,
        levels={level: budget.budget for level, budget in setting.levels.items()},
        gamma=setting.gamma,
        race_codes=setting.race_codes,
        chance=setting.chance if setting.chance and setting.chance >= Fraction(1, 2) else CHANCE,
        stabilities={level: budget.stability for level, budget in setting.levels.items() if budget.stability != usual},
        thresholds=setting.thresholds,
    )


def _plan_from_levels(texts: Sequence[str], definition: Definition) -> BudgetPlan:
    """Return the plan of `LEVEL=BUDGET` options."""
    levels = {}
    for text in texts:
        name, budget = pair(text, "a level")
        levels[named_level(name)] = fraction(budget, f"the budget of {name.strip()}")
    return BudgetPlan("levels of the command line", one_jurisdiction(levels), definition, levels)


def _production_plan(definition: Definition) -> BudgetPlan:
    """Return the plan of production; under pure DP with the least budgets that meet its margins, to four digits."""
    if definition == "zcdp":
        page = PRODUCTION.budgets["zcdp"]
        budgets = {target: Fraction(page[target].total) for target in page}
    else:
        targets = set(PRODUCTION.targets.values())
        least = {target: least_budget(definition, target, multiplicity_stability(8)) for target in targets}
        budgets = {target: Fraction(digits(budget / (1 - GAMMA), 4)) for target, budget in least.items()}
    levels = {named_level(name): budgets[target] for name, target in PRODUCTION.targets.items()}
    source = f"production ({PRODUCTION.name})"
    return BudgetPlan(source if definition == "zcdp" else f"least budgets of {source}", "us", definition, levels)


def budgets_of(plan: BudgetPlan, definition: Definition) -> Mapping[Level, Fraction]:
    """Return the budgets of the levels; under the other definition the least with the same margins, to four digits.

    For production's plan, return the budgets of that definition's own plan.
    """
    if plan.levels == _production_plan(plan.definition).levels:
        return _production_plan(definition).levels
    if definition == plan.definition:
        return plan.levels
    found = {}
    for level in plan.levels:
        budget = plan.level_budget(level)
        cell = margin_of_error(level_laws(plan.definition, budget, plan.gamma)["stage_2"])
        need = least_budget(definition, cell, budget.stability) / (1 - plan.gamma)
        found[level] = Fraction(digits(need, 4))
    return found
