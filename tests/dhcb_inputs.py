"""Small inputs of the Detailed DHC-B, its stages without a cluster, and its release without noise, row by row."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import dhca_inputs
from dhca_inputs import BLOCK, BLOCKS, HERE, RACES, REGION_TYPES, Inputs, mark_synthetic, stage, validate, write_rows
from dhca_naive import PR, US, iterations, regions, states, tabulated

from flows.execution.runner import release_truth
from flows.execution.safetab_settings import DetailedDhcbSettings
from spine.settings import Jurisdiction
from tasks.errors import Refused
from tasks.records.findings import Finding, load_findings
from tasks.safetab.households.run import HouseholdRun
from tasks.safetab.run import ValidatedSafeTab

COLUMNS = [*BLOCK, "HHRACE", *RACES, "QSPAN", "HOUSEHOLD_TYPE", "TEN"]
TOTALS = ["REGION_ID", "REGION_TYPE", "ITERATION_CODE", "COUNT"]
TABLES = ("t3", "t4")
BUDGETS = [
    f"privacy_budget_h_{table}_level_{level}_{name}" for table in TABLES for name in REGION_TYPES for level in (1, 2)
]


def only(*ends: str) -> dict[str, int]:
    """Budgets for the levels with these ends alone: a run takes as long as it has levels."""
    return {name: 0 for name in BUDGETS if not name.endswith(ends)}


NATION_AND_COUNTIES = only("_usa", "_county")
LEVELS = [f"({name.upper().replace('_', '-')}, {level})" for name in REGION_TYPES for level in (1, 2)]
T3_THRESHOLDS, T4_THRESHOLDS = [2, 5, 9], [3]
T3 = {0: "12345", 1: "123", 2: "1", 3: "23", 4: "2", 5: "3", 6: "45", 7: "4", 8: "5"}
T4 = {0: "1234", 1: "1", 2: "2", 3: "34"}
T3_ROWS = [(0,), (0, 1, 6), (0, 1, 2, 3, 6, 7, 8), (0, 1, 2, 3, 4, 5, 6, 7, 8)]
T4_ROWS = [(0,), (0, 1, 2, 3)]
NAIVE = {  # of a table: file names by detail, rows by detail, what a cell counts, the column of a household
    "t3": (["T03001", "T03002", "T03003", "T03004"], T3_ROWS, T3, "HOUSEHOLD_TYPE"),
    "t4": (["T04001", "T04002"], T4_ROWS, T4, "TEN"),
}


def configuration(**changes: Any) -> dict[str, Any]:
    """A valid config.json, with changes."""
    return {
        "max_race_codes": 8,
        **dict.fromkeys(BUDGETS, 1),
        "thresholds_h_t3": {name: list(T3_THRESHOLDS) for name in LEVELS},
        "thresholds_h_t4": {name: list(T4_THRESHOLDS) for name in LEVELS},
        "allow_negative_counts": True,
        "run_us": True,
        "run_pr": False,
        "reader": "csv",
        "state_filter_us": ["01", "02"],
        "privacy_defn": "zcdp",
        **changes,
    }


def household(block: tuple[str, ...] = BLOCKS[0], races: Iterable[str] = ("1100",), **changes: str) -> dict[str, str]:
    """A household record."""
    values = [*block[:4], "01", *[*races, *["Null"] * 8][:8], "2000", "1", "1"]
    return dict(zip(COLUMNS, values, strict=True)) | changes


def households(count: int, seed: int = 1, blocks: Iterable[tuple[str, ...]] = BLOCKS[:6]) -> list[dict[str, str]]:
    """Random households in the blocks."""
    rng = random.Random(seed)
    return [
        household(
            rng.choice(list(blocks)),
            rng.choices(["1100", "1110", "1200", "1300"], k=rng.choice([1, 1, 1, 2, 3])),
            QSPAN=rng.choice(["2000", "2000", "2100", "2200"]),
            HOUSEHOLD_TYPE=rng.choice("12345"),
            TEN=rng.choice("1234"),
            HHRACE=f"{rng.randint(1, 63):02d}",
        )
        for _ in range(count)
    ]


@dataclass
class HouseholdInputs(Inputs):
    """The input of a run; change what you like, then write it. `totals` are rows of pop-group-totals.txt."""

    config: dict[str, Any] = field(default_factory=configuration)
    persons: list[dict[str, str]] = field(default_factory=list)
    households: list[dict[str, str]] = field(default_factory=lambda: households(60))
    totals: list[tuple[str, str, str, str]] | None = None

    def __post_init__(self) -> None:
        if self.totals is None:
            self.totals = random_totals(self)

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write the files; returns the parameters and the data directory."""
        params, data = super().write(folder)
        (data / "person-records.txt").unlink()
        write_rows(data / "household-records.txt", COLUMNS, [row.values() for row in self.households])
        assert self.totals is not None
        write_rows(data / "pop-group-totals.txt", TOTALS, self.totals)
        return params, data


def random_totals(inputs: Inputs, seed: int = 3) -> list[tuple[str, str, str, str]]:
    """Totals about the thresholds for most groups of all states; some suppressed."""
    rng = random.Random(seed)
    found = {
        (region_id, region_type, code): None
        for block in inputs.blocks
        for region_type, region_id in regions(block).items()
        for level in (1, 2)
        for code in tabulated(inputs, region_type, level)
    }
    return [(*group, str(rng.randint(-2, 11))) for group in sorted(found) if rng.random() < 0.9]


def release(inputs: HouseholdInputs, jurisdiction: str) -> dict[str, list[tuple[str, ...]]]:
    """Every text file of the release without noise, household by household."""
    files: dict[str, list[tuple[str, ...]]] = {}
    blocks = {block[:4]: block for block in inputs.blocks if block[0] in states(inputs, jurisdiction)}
    here = {each for block in blocks.values() for each in regions(block).items()}
    counted: dict[tuple[str, str, str], Counter[tuple[str, str]]] = {}
    for one in inputs.households:
        block = blocks.get(tuple(one[name] for name in BLOCK))  # type: ignore[arg-type]
        for region_type, region_id in regions(block).items() if block else ():
            for level in (1, 2):
                for code in iterations(inputs, one, region_type, level):
                    group = counted.setdefault((region_type, region_id, code), Counter())
                    group["HOUSEHOLD_TYPE", one["HOUSEHOLD_TYPE"]] += 1
                    group["TEN", one["TEN"]] += 1
    assert inputs.totals is not None
    for region_id, region_type, code, total in inputs.totals:
        if region_type not in (US if jurisdiction == "us" else PR) or (region_type, region_id) not in here:
            continue
        for level in (1, 2):
            if code not in tabulated(inputs, region_type, level):
                continue
            for table, (names, rows, cells, column) in NAIVE.items():
                key = f"privacy_budget_h_{table}_level_{level}_{region_type.lower().replace('-', '_')}"
                if not inputs.config[key]:
                    continue
                thresholds = inputs.config[f"thresholds_h_{table}"][f"({region_type}, {level})"]
                detail = sum(int(total) >= threshold for threshold in thresholds)
                of_group = counted.get((region_type, region_id, code), Counter())
                file = files.setdefault(f"{table}/{names[detail]}/{region_type.lower()}-{level}.csv", [])
                file += [
                    (
                        region_id,
                        region_type,
                        code,
                        str(cell),
                        str(sum(of_group[column, value] for value in cells[cell])),
                    )
                    for cell in rows[detail]
                ]
    return {name: sorted(rows) for name, rows in files.items()}


def released(folder: Path) -> dict[str, list[tuple[str, ...]]]:
    """The rows of every text file of T3 and T4 of a release."""
    paths = sorted(path for table in TABLES for path in folder.glob(f"{table}/*/*.csv"))
    return {
        str(path.relative_to(folder)): [tuple(line.split("|")) for line in path.read_text().splitlines()[1:]]
        for path in paths
    }


new_run = partial(dhca_inputs.new_run, kind=HouseholdRun)
settings_here = partial(dhca_inputs.settings_here, kind=DetailedDhcbSettings)


def truth_here(folder: Path, params: Path, data: Path, jurisdiction: Jurisdiction = "us", **options: Any) -> Path:
    """Release exact counts."""
    new_run(folder, f"truth-{jurisdiction}")
    settings = settings_here(folder, params, data, jurisdiction, "truth", **options)
    place = release_truth(settings, HERE, curator=True)
    assert place is not None
    return place


def validate_here(
    folder: Path, inputs: HouseholdInputs, jurisdiction: Jurisdiction = "us", *, marked: bool = False, **options: Any
) -> tuple[HouseholdRun, ValidatedSafeTab | None, list[Finding]]:
    """Write and validate; None where the input is refused. Returns the curator's report as well."""
    params, data = inputs.write(folder)
    if marked:
        mark_synthetic(data)
    run = new_run(folder, f"run-{jurisdiction}")
    settings = settings_here(folder, params, data, jurisdiction, **options)
    try:
        validated = validate(run, HERE, str(params), str(data), jurisdiction, others=settings.public_inputs)
    except Refused as refused:
        if not (run / "findings.json").exists():
            raise
        validated, REFUSALS[:] = None, [str(refused)]
    return run, validated, load_findings(run)


REFUSALS: list[str] = []  # the message of the last refusal


def stage_here(
    folder: Path, inputs: HouseholdInputs, name: str = "run", jurisdiction: Jurisdiction = "us", **options: Any
) -> tuple[HouseholdRun, Path]:
    """Run every stage up to the commit on synthetic data under a fixed secret; the run and its staged release."""
    settings = settings_here(folder, *inputs.write(folder / name), jurisdiction, name, **options)
    return stage(new_run(folder, f"{name}-{jurisdiction}"), settings, {})
