"""The budgets of an S-DHC configuration, or of a release: what tuning and attribute losses start from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privacy.accounting.composition import read_spend
from privacy.noise.laws import Definition
from privacy.s_dhc.stability import Query, Stability
from tasks.inputs.files import read_text
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.manifest import read_manifest, require_release
from tasks.s_dhc.configuration import read_configuration
from tasks.s_dhc.stated_queries import queries_of

TITLE = "Supplemental DHC by PHSafe"  # `release` in manifests
FILES = ("config.json", "manifest.json")


@dataclass(frozen=True)
class Budgets:
    """The queries of a run with their budgets, and where they are from."""

    source: str
    definition: Definition
    stability: Stability
    queries: tuple[Query, ...]


def is_of_s_dhc(path: Path) -> bool:
    """Return whether a file or folder is a config.json of the S-DHC, or a release of it."""
    file = _file(path)
    try:
        found = read_manifest(file.parent) if file.name == FILES[1] else json.loads(read_text(file))
    except (Refused, OSError, ValueError, RecursionError):
        return False  # whoever reads it says why
    return isinstance(found, dict) and ({"privacy_budget", "tau"} <= found.keys() or found.get("release") == TITLE)


def read_budgets(path: Path) -> Budgets:
    """Return the budgets of a config.json, a release, its manifest.json, or the folder of either.

    Raises Refused for infinite budgets, and for what has none of the S-DHC.
    """
    file = _file(path)
    return budgets_of_release(file.parent) if file.name == FILES[1] else budgets_of_configuration(file)


def budgets_of_configuration(path: Path) -> Budgets:
    """Return the budgets of a config.json. Raises Refused where it has a fault, or an infinite budget."""
    configuration = read_configuration(path)
    configuration.spend()  # refuses infinite budgets
    queries = tuple(each.query for each in configuration.queries())
    return Budgets(str(path), configuration.definition, configuration.stability, queries)


def budgets_of_release(release: Path) -> Budgets:
    """Return the budgets of a release. Raises Refused where it is none of the S-DHC with noise."""
    require_release(release)
    manifest = read_manifest(release)
    try:
        definition = read_spend(manifest["spent"]).definition
        queries, stability = queries_of(manifest), _stability(manifest["stability"])
    except (KeyError, TypeError, ValueError):
        raise Refused(f"{release} is not a release of the Supplemental DHC with noise") from None
    return Budgets(str(release), definition, stability, tuple(queries.values()))


def _stability(text: Any) -> Stability:
    if text not in ("program", "unit"):
        raise ValueError(text)
    return "unit" if text == "unit" else "program"


def _file(path: Path) -> Path:
    """Return the file in a folder that has budgets, or the file itself."""
    return next((path / name for name in FILES if (path / name).is_file()), path)
