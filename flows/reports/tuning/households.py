"""What a configuration of the Detailed DHC-B gives, from public numbers alone: budgets, noise, margins, thresholds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from flows.reports.figures import digits, near
from privacy.noise.laws import law
from privacy.noise.margins import margin_of_error
from tasks.detailed_dhcb.configuration import Configuration
from tasks.detailed_dhcb.tables import T3, TABLES
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.manifest import MANIFEST
from tasks.pages.text_table import TextTable
from tasks.population_groups.configuration import parse_configuration
from tasks.population_groups.iterations import Iterations
from tasks.population_groups.parameters import read_parameter_files, stability_parts
from tasks.population_groups.reserve_budget import planned_spend
from tasks.synth.params import HOUSEHOLDS_CONFIG
from tasks.synth.params import PRODUCTION as PRODUCTION_FILES

PRODUCTION = "production (NMFv5)"
STATES = [f"{state:02d}" for state in range(1, 57) if state not in (3, 7, 14, 43, 52)]


def household_answers(source: Path | None, delta: Fraction) -> dict[str, Any]:
    """Return what each jurisdiction spends, and the noise and margins of every level; without a source of production.

    Raises Refused where the configuration has a fault.
    """
    configuration, iterations = read_households(source)
    return {
        "source": str(source or PRODUCTION),
        "spent": {
            jurisdiction: planned_spend(configuration, jurisdiction).as_json(delta)
            for jurisdiction in configuration.jurisdictions
        },
        "levels": [
            row
            for jurisdiction in configuration.jurisdictions
            for row in _levels(configuration, iterations, configuration.levels(jurisdiction))
        ],
    }


def read_households(source: Path | None) -> tuple[Configuration, Iterations | None]:
    """Read a configuration of the Detailed DHC-B as `read_parameter_files` does; without a source the production's."""
    if source is None:
        runs = {"run_us": True, "run_pr": True, "reader": "csv", "state_filter_us": STATES}
        text = (PRODUCTION_FILES / HOUSEHOLDS_CONFIG).read_text("utf-8").rstrip().removesuffix("}")
        found, faults = parse_configuration(f"{text}, {json.dumps(runs)[1:]}", Configuration)
        if found is None:
            raise Refused(faults[0].rule)
        return found, None
    if source.name == MANIFEST or (source / MANIFEST).exists():
        raise Refused(f"{source} is a release: give its configuration, which has budgets and thresholds")
    return read_parameter_files(source, Configuration)


def _levels(configuration: Configuration, iterations: Iterations | None, levels: Any) -> Iterator[dict[str, Any]]:
    for level in levels:
        stability = sum(stability_parts(configuration, iterations, level))
        for table in configuration.tables(level):
            budget = configuration.table_budget(table.key, level)
            drawn = law(configuration.privacy_defn, budget, stability)
            yield {
                "level": level.name,
                "table": table.name.upper(),
                "budget": budget,
                "stability": stability,
                "parameter": drawn.parameter,
                "variance": drawn.variance(),
                "thresholds": configuration.thresholds[table.key][level],
                "margins": {
                    name: margin_of_error(drawn, int(width))
                    for name, width in zip(table.details, table.widths, strict=True)
                },
            }


def household_tables(answers: Mapping[str, Any]) -> Iterator[TextTable]:
    """Yield the answers as tables."""
    notes = [
        f"{jurisdiction.upper()} spends, for {each['sentence']}: {each['decimal']:.10g}, "
        f"epsilon {each['epsilon_at_delta']:.4g}"
        for jurisdiction, spent in answers["spent"].items()
        for each in spent["relations"]
    ]
    columns = ["level", "table", "budget", "stability", "deviation", "thresholds"]
    margins = [f"± {cells} cell{'s' * (cells > 1)}" for cells in (1, 2, 3, 4, 5)]
    rows = []
    for row in answers["levels"]:
        widths = TABLES[row["table"].lower()].widths.tolist()
        of_widths = dict(zip(widths, row["margins"].values(), strict=True))
        facts = [row["level"], row["table"], digits(row["budget"], 7), str(row["stability"])]
        facts += [near(row["variance"] ** 0.5), ", ".join(map(str, row["thresholds"]))]
        rows.append([*facts, *(str(of_widths.get(cells, "")) for cells in range(1, int(T3.widths[-1]) + 1))])
    title = f"Detailed DHC-B, {answers['source']}: margins of a table's total at 95%, by its measured cells"
    yield TextTable(title, [*columns, *margins], rows, notes, words=2)
