"""What a run will take, stage by stage, for the bar of the whole run.

It depends on the number of persons: told to the terminal as it is, to the Prefect server only `coarsely`.
"""

from __future__ import annotations

import pyarrow.parquet as pq

from flows.execution.progress import Expected
from spine.settings import Jurisdiction
from tasks.detailed_dhca.person_file import PersonFile
from tasks.detailed_dhca.run import DetailedRun
from tasks.inputs.files import locate
from tasks.population_groups.domain import load_domain
from tasks.top_down.run import TopDownRun

# Core-seconds a million on a quiet core, in the ratios that benchmarks/stages.py measures on the nation. What is left
# is told from these ratios alone, at the pace of the run so far.
TEXT, PARQUET = 0.13, 0.1  # persons, from text or Parquet
COUNTED = 0.048  # persons, counted by population group
MEASURED = {"totals": 0.018, "sex by age": 0.024, "suppression": 0.008}  # population groups
ESTIMATED = 0.01  # population groups, of which the published ones are estimated
TABLES = 2.0  # levels, at four estimators each
RELEASED = 0.01  # population groups, of which a part is written
SPINE = 6.0  # blocks, in two passes over the states

PERSON_BYTES = 79  # a line of text


def expected_work(run: DetailedRun, jurisdiction: Jurisdiction, spine: bool, estimates: bool) -> Expected | None:
    """Return the core-seconds that each stage is expected to take, and its pieces.

    None before the geography is read.
    """
    if not (run.geography_folder / "region_ids").exists():
        return None
    file: PersonFile = run.person_file
    millions = _persons(file) / 1e6
    domains = [load_domain(run, level) for level in run.parameters.configuration.levels(jurisdiction)]
    groups = sum(domain.groups for domain in domains) / 1e6
    pieces = sum(len(domain.pieces()) for domain in domains)
    blocks = len(run.geography.blocks) / 1e6
    states = len(run.parameters.configuration.states(jurisdiction))
    estimated = {"estimate tables": (len(domains) * TABLES, 0), "estimates": (groups * ESTIMATED, pieces)}
    return {
        "validate": (millions * (PARQUET if file.parquet else TEXT), 0),
        "population groups": (millions * COUNTED, 0),
        **{stage: (groups * seconds, pieces) for stage, seconds in MEASURED.items()},
        **(estimated if estimates else {}),
        **({"spine": (blocks * SPINE, 2 * states)} if spine else {}),
        "release": (groups * RELEASED, 0),
    }


def _persons(file: PersonFile) -> float:
    """Return about how many rows the person records have."""
    filesystem, name = locate(file.path)
    if not file.parquet:
        return float(filesystem.size(name)) / PERSON_BYTES
    with filesystem.open(name) as stream:
        return float(pq.ParquetFile(stream).metadata.num_rows)


# Core-seconds of the TopDown Algorithm, as benchmarks/top_down.py measures them on Rhode Island.
CHECKED = 2.0  # a million records
DRAWN, WRITTEN, ESTIMATED = 0.05, 0.10, 0.20  # a thousand blocks: measured in estimation, released, solved
PASSED_UP, MARGINS = 0.04, 0.1  # a thousand blocks, without the noise


def expected_top_down(run: TopDownRun) -> Expected | None:
    """The core-seconds that each stage is expected to take; None before the blocks are read."""
    folder = run / "prepared/blocks"
    if not folder.exists():
        return None
    design, states = run.design, [run.state(path.name) for path in sorted(folder.iterdir())]
    persons, thousands = sum(states[0].totals.values()) / 1e6, sum(len(state.geography) for state in states) / 1e3
    drawn = thousands * (DRAWN + WRITTEN) if design.measurements else 0.0
    return {
        "validate": (CHECKED * (persons + sum(int(state.quarters.sum()) for state in states) / 1e6), 0),
        "measure": (drawn, 0),
        **({"pass up": (thousands * (DRAWN + PASSED_UP), 0)} if design.estimator == "gls" else {}),
        "estimate states": (thousands * ESTIMATED * 0.1, 0),
        "estimate tracts": (thousands * ESTIMATED * 0.5, 0),
        "estimate blocks": (thousands * (ESTIMATED * 0.4 + DRAWN), 0),
        **({"margins": (thousands * (DRAWN + MARGINS), 0)} if design.estimator == "gls" else {}),
        "release": (thousands * 0.05, 0),
    }
