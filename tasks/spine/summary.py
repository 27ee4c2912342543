"""The summary of a spine directory, its spine.json, and the titles of spines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any

from spine.settings import SpineSettings
from tasks.spine.first_pass import SpinePlan

NAMES = {"conventional": "conventional", "aian": "AIAN", "optimized": "optimized"}


@dataclass(frozen=True)
class SpineSummary:
    """The content of a spine directory, as in spine.json.

    geounits: by spine and level. classes: rows of classes.csv. cost: the most that a replaced record costs (rho or
    epsilon), which is the budget when every share is spent. notes: what was left out or is not known.
    """

    product: str
    region: str
    variant: str
    mechanism: str
    states: tuple[str, ...]
    blocks: int
    geounits: Mapping[str, Mapping[str, int]]
    budget: Fraction
    cost: Fraction
    classes: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]
    out: Path

    def as_json(self) -> dict[str, Any]:
        """Return plain values, fractions and paths as text."""
        return {**asdict(self), "budget": str(self.budget), "cost": str(self.cost), "out": str(self.out)}


def manifest(summary: SpineSummary, plan: SpinePlan, inputs: Mapping[str, str]) -> dict[str, Any]:
    """Return the summary, the settings with their sources, the allocation, and digests of the inputs."""
    sources = SpineSettings.sources()
    settings = {
        name: {"value": str(value) if isinstance(value, Fraction) else value, "source": sources[name]}
        for name, value in plan.settings.described().items()
    }
    allocation = {"source": plan.allocation.source, **plan.allocation.described()}
    shown = summary.as_json()
    del shown["out"], shown["classes"], allocation["mechanism"]
    versions = {"das-flows": version("das-flows")}
    return {**shown, "inputs": dict(inputs), "versions": versions, "settings": settings, "allocation": allocation}
