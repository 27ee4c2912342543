"""Small inputs of the Detailed DHC-A, and its stages without a cluster: what the tests of a run share."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from flows.execution.runner import Ask, InProcess, Stage, release_truth
from flows.execution.safetab_settings import DetailedDhcaSettings
from flows.execution.systems import all_data_files
from spine.settings import Jurisdiction
from tasks.errors import Refused
from tasks.lifecycle.workers import Workers
from tasks.records.findings import Finding, load_findings
from tasks.records.marks import Mark, data_files, write_mark
from tasks.releases.digests import file_digest
from tasks.safetab.persons.run import DetailedRun
from tasks.safetab.run import PublicInput, SafeTabRun, ValidatedSafeTab
from tasks.safetab.validation import RunPart
from tasks.safetab.validation import validate as validate_all

PROPERTY = settings(derandomize=True, database=None, deadline=None, max_examples=25)

REGION_TYPES = ("usa", "state", "county", "tract", "place", "aiannh", "pr_state", "pr_county", "pr_tract", "pr_place")
BUDGETS = [f"privacy_budget_p_level_{level}_{name}" for name in REGION_TYPES for level in (1, 2)]
RACES = [f"QRACE{number}" for number in range(1, 9)]
BLOCK = ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"]
PERSON_COLUMNS = ["QAGE", "QSEX", "HOUSEHOLDER", *BLOCK, "CENRACE", *RACES, "QSPAN"]
BLOCK_COLUMNS = [*BLOCK, "PLACEFP", "AIANNHCE"]
RACE_COLUMNS = ["ITERATION_CODE", "ITERATION_NAME", "LEVEL", "ALONE", "DETAILED_ONLY", "COARSE_ONLY"]
ETHNICITY_COLUMNS = ["ITERATION_CODE", "ITERATION_NAME", "LEVEL", "DETAILED_ONLY", "COARSE_ONLY"]

CODES = ["1100", "1110", "1200", "1300", "2000", "2100", "2200"]
RACE = [  # code, level, alone, detailed only, coarse only, the race codes that map to it
    ("0001", "0", "True", "Null", "Null", "1100 1110 1200 1300"),
    ("0002", "0", "False", "Null", "Null", "1100 1110 1200 1300"),
    ("1001", "1", "True", "False", "False", "1100 1110"),
    ("1002", "1", "False", "False", "False", "1100 1110"),
    ("1003", "1", "True", "False", "False", "1200 1300"),
    ("1004", "1", "False", "False", "False", "1200 1300"),
    ("2001", "2", "True", "False", "False", "1100"),
    ("2002", "2", "False", "False", "False", "1100"),
    ("2003", "2", "True", "False", "False", "1110"),
    ("2004", "2", "False", "False", "False", "1110"),
    ("2005", "2", "True", "False", "False", "1200"),
    ("2006", "2", "False", "False", "False", "1200"),
    ("2007", "2", "True", "True", "False", "1300"),  # only a total, at nation and state
    ("2008", "2", "False", "True", "False", "1300"),
    ("2009", "2", "True", "False", "True", "1300"),  # sub-state only
    ("2010", "2", "False", "False", "True", "1300"),
]
ETHNICITY = [
    ("3000", "0", "Null", "Null", "2000"),
    ("3001", "1", "False", "False", "2100 2200"),
    ("3002", "2", "False", "False", "2100"),
    ("3003", "2", "True", "False", "2200"),
]
BLOCKS = [
    ("01", "001", "000100", "1000", "00500", "9999"),
    ("01", "001", "000100", "1001", "00500", "0007"),
    ("01", "001", "000200", "1000", "99999", "9999"),
    ("01", "003", "000100", "1000", "00500", "0007"),
    ("02", "001", "000100", "1000", "00500", "0007"),
    ("02", "001", "000100", "1001", "00900", "0008"),
    ("11", "001", "000100", "1000", "50000", "9999"),
    ("72", "001", "000100", "1000", "00500", "9999"),
    ("72", "003", "000300", "1000", "99999", "9999"),
]
THRESHOLDS = [2, 8, 30]


def _level(key: str) -> str:
    level, region_type = key.removeprefix("privacy_budget_p_level_").split("_", 1)
    return f"({region_type.upper().replace('_', '-')}, {level})"


def configuration(**changes: Any) -> dict[str, Any]:
    """A valid config.json, with changes."""
    return {
        "max_race_codes": 8,
        **dict.fromkeys(BUDGETS, 1),
        "privacy_budget_p_stage_1_fraction": 0.25,
        "thresholds_p": {_level(key): list(THRESHOLDS) for key in BUDGETS},
        "zero_suppression_chance": 0.9,
        "allow_negative_counts": True,
        "run_us": True,
        "run_pr": False,
        "reader": "csv",
        "state_filter_us": ["01", "02"],
        "privacy_defn": "zcdp",
        **changes,
    }


def write_config(folder: Path, **changes: Any) -> Path:
    """Write a valid config.json, with changes; a key that is None is left out."""
    path = folder / "config.json"
    path.write_text(json.dumps({key: value for key, value in configuration(**changes).items() if value is not None}))
    return path


def person(block: tuple[str, ...] = BLOCKS[0], races: Iterable[str] = ("1100",), **changes: str) -> dict[str, str]:
    """A person record."""
    races = [*races, *["Null"] * 8][:8]
    values = ["30", "1", "True", *block[:4], "01", *races, "2000"]
    return dict(zip(PERSON_COLUMNS, values, strict=True)) | changes


def people(count: int, seed: int = 1, blocks: Iterable[tuple[str, ...]] = BLOCKS[:6]) -> list[dict[str, str]]:
    """Random persons in the blocks."""
    rng = random.Random(seed)
    return [
        person(
            rng.choice(list(blocks)),
            rng.choices(["1100", "1110", "1200", "1300"], k=rng.choice([1, 1, 1, 2, 3])),
            QAGE=str(rng.randint(0, 115)),
            QSEX=rng.choice("12"),
            QSPAN=rng.choice(["2000", "2000", "2100", "2200"]),
        )
        for _ in range(count)
    ]


@dataclass
class Inputs:
    """The input of a run; change what you like, then write it."""

    config: dict[str, Any] = field(default_factory=configuration)
    codes: list[str] = field(default_factory=lambda: list(CODES))
    race: list[tuple[str, ...]] = field(default_factory=lambda: deepcopy(RACE))
    ethnicity: list[tuple[str, ...]] = field(default_factory=lambda: deepcopy(ETHNICITY))
    blocks: list[tuple[str, ...]] = field(default_factory=lambda: list(BLOCKS))
    persons: list[dict[str, str]] = field(default_factory=lambda: people(60))
    names: list[tuple[str, str, str]] = field(default_factory=list)

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write the files; returns the parameters and the data directory."""
        params, data = folder / "params", folder / "data"
        for path in (params, data):
            path.mkdir(parents=True, exist_ok=True)
        (params / "config.json").write_text(json.dumps(self.config))
        write_rows(
            params / "race-and-ethnicity-codes.txt",
            ["RACE_ETH_CODE", "RACE_ETH_NAME"],
            [(code, f"Name {code}") for code in self.codes],
        )
        write_rows(
            params / "race-characteristic-iterations.txt",
            RACE_COLUMNS,
            [(row[0], f"Iteration {row[0]}", *row[1:5]) for row in self.race],
        )
        write_rows(
            params / "ethnicity-characteristic-iterations.txt",
            ETHNICITY_COLUMNS,
            [(row[0], f"Iteration {row[0]}", *row[1:4]) for row in self.ethnicity],
        )
        mapping = [(row[0], code) for row in (*self.race, *self.ethnicity) for code in row[-1].split()]
        write_rows(params / "race-and-ethnicity-code-to-iteration.txt", ["ITERATION_CODE", "RACE_ETH_CODE"], mapping)
        write_rows(data / "GRF-C.txt", BLOCK_COLUMNS, self.blocks)
        if self.names:
            write_rows(data / "names.csv", ["REGION_TYPE", "REGION_ID", "NAME"], self.names)
        write_rows(data / "person-records.txt", PERSON_COLUMNS, [row.values() for row in self.persons])
        return params, data


def read_inputs(params: Path, data: Path) -> Inputs:
    """Input files, read as they are, for the naive implementation."""
    codes_of: dict[str, list[str]] = {}
    for row in read_rows(params / "race-and-ethnicity-code-to-iteration.txt"):
        codes_of.setdefault(row["ITERATION_CODE"], []).append(row["RACE_ETH_CODE"])

    def iterations(name: str, columns: list[str]) -> list[tuple[str, ...]]:
        return [
            (row["ITERATION_CODE"], *(row[column] for column in columns[2:]), " ".join(codes_of[row["ITERATION_CODE"]]))
            for row in read_rows(params / f"{name}-characteristic-iterations.txt")
        ]

    return Inputs(
        config=json.loads((params / "config.json").read_text()),
        codes=[row["RACE_ETH_CODE"] for row in read_rows(params / "race-and-ethnicity-codes.txt")],
        race=iterations("race", RACE_COLUMNS),
        ethnicity=iterations("ethnicity", ETHNICITY_COLUMNS),
        blocks=[tuple(row[name] for name in BLOCK_COLUMNS) for row in read_rows(data / "GRF-C.txt")],
        persons=read_rows(data / "person-records.txt"),
    )


def check_mark(mark: Mark, data: Path) -> None:
    """Raise Refused unless the mark covers every data file of the directory as it is now."""
    mark.check({name: file_digest(data / name) for name in data_files(data, all_data_files())})


def mark_synthetic(data: Path, **about: str) -> Mark:
    """Mark all data files of a directory as synthetic."""
    return write_mark(data, data_files(data, all_data_files()), generator="a test", version="1", **about)


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a pipe-delimited table."""
    header, *rows = [line.split("|") for line in path.read_text(encoding="utf-8").splitlines() if line]
    return [dict(zip(header, row, strict=True)) for row in rows]


def write_rows(path: Path, header: Iterable[str], rows: Iterable[Iterable[str]], end: str = "\n") -> None:
    """Write a pipe-delimited table."""
    path.write_bytes("".join("|".join(row) + end for row in (header, *rows)).encode())


def edit(path: Path, change: Callable[[str], str]) -> None:
    """Change a text file."""
    path.write_bytes(change(path.read_bytes().decode()).encode())


@st.composite
def countries(draw: st.DrawFn) -> Inputs:
    """A random small geography with persons, over the small hierarchy; some in another state."""
    parts = st.tuples(
        st.sampled_from(["01", "02"]),
        st.sampled_from(["001", "003"]),
        st.sampled_from(["000100", "000201"]),
        st.sampled_from(["0001", "1000", "1001"]),
    )
    blocks = [
        (*part, draw(st.sampled_from(["00500", "00900", "99999"])), draw(st.sampled_from(["0007", "0008", "9999"])))
        for part in draw(st.lists(parts, unique=True, min_size=1, max_size=8))
    ]
    budgets = {key: draw(st.sampled_from([1, 1, 1, 0])) for key in BUDGETS} | {BUDGETS[0]: 1}
    persons = people(draw(st.integers(1, 40)), draw(st.integers(0, 99)), [*blocks, BLOCKS[6]])
    return Inputs(config=configuration(**budgets), blocks=blocks, persons=persons)


class Here:
    """Workers in this process: every piece of a stage is a plain call."""

    count = 2

    def map(
        self, stage: str, run: DetailedRun, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]
    ) -> list[Any]:
        return [function(run, *each) for each in arguments]


HERE = cast(Workers, Here())


def new_run(folder: Path, name: str = "run-us", kind: Any = DetailedRun) -> Any:
    """An empty run directory, of a kind of runs."""
    run = kind(folder / "runs" / name)
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)  # others may not open the state
    run.create()
    return run


def validate(
    run: SafeTabRun,
    workers: Any,
    params: str,
    data: str,
    jurisdiction: Jurisdiction,
    others: Sequence[PublicInput] = (),
) -> ValidatedSafeTab | None:
    """Validate a run that has one part."""
    return validate_all([RunPart(run, jurisdiction, others)], workers, params, data)[jurisdiction]


def validate_here(
    run: DetailedRun, params: Path, data: Path, jurisdiction: Jurisdiction = "us"
) -> tuple[ValidatedSafeTab | None, list[Finding]]:
    """Validate and encode; None where the input is refused. Returns the curator's report as well."""
    try:
        validated = validate(run, HERE, str(params), str(data), jurisdiction)
    except Refused:
        validated = None
    return validated, load_findings(run)


def valid_run(folder: Path, inputs: Inputs, jurisdiction: Jurisdiction = "us") -> tuple[DetailedRun, list[Finding]]:
    """A run that has validated these inputs, and the curator's report."""
    run = new_run(folder, f"run-{jurisdiction}")
    validated, findings = validate_here(run, *inputs.write(folder), jurisdiction)
    assert validated is not None, findings
    return run, findings


def cut_files(patch: pytest.MonkeyPatch, size: int) -> None:
    """Read files in chunks of so many bytes."""
    for module in ("records.records", "releases.digests"):
        patch.setattr(f"tasks.{module}.CHUNK_BYTES", size)


def settings_here(
    folder: Path,
    params: Path,
    data: Path,
    jurisdiction: Jurisdiction = "us",
    name: str = "run",
    kind: Any = DetailedDhcaSettings,
    **options: Any,
) -> Any:
    """The settings, of a kind, of a run whose directory is FOLDER/runs/NAME-us, without a spine."""
    known = {
        "params": str(params),
        "data": str(data),
        "jurisdiction": jurisdiction,
        "out": str(folder / name / "out"),
        "runs_folder": str(folder),
        "ledger": str(folder / "runs/ledger.sqlite"),
        "run_id": f"{name}-{jurisdiction}",
        **({"spine": False} if "spine" in kind.model_fields else {}),
    }
    return kind.model_validate(known | options)


def truth_here(
    folder: Path, params: Path, data: Path, jurisdiction: Jurisdiction = "us", *, coterminous: bool = False
) -> Path:
    """Release exact counts."""
    new_run(folder, f"truth-{jurisdiction}")
    options = {"out": str(folder / "truth"), "ledger": str(folder / "no-ledger"), "coterminous": coterminous}
    settings = settings_here(folder, params, data, jurisdiction, "truth", **options)
    place = release_truth(settings, HERE, curator=True)
    assert place is not None
    return place


class SameNoise(InProcess[Any]):
    """The stages of a run whose noise follows from these options: with estimates or not it is the same."""

    def __init__(self, options: dict[str, object], settings: Any, **limits: Any) -> None:
        super().__init__(settings, HERE, **limits)
        self.options = options

    def reserve_all(self, asks: Sequence[Ask], /, *after: Stage) -> Stage:
        changed = [replace(ask, make=partial(ask.make, options=self.options)) for ask in asks]
        return super().reserve_all(changed, *after)


def stage_here(
    folder: Path,
    inputs: Inputs,
    *,
    name: str = "run",
    jurisdiction: Jurisdiction = "us",
    secret: bytes = bytes(32),
    listed: Path | None = None,
    **options: Any,
) -> tuple[DetailedRun, Path]:
    """Run every stage up to the commit on synthetic data under a fixed secret; the run and its staged release."""
    options = {"coterminous": False, "coterminous_list": str(listed) if listed else None, **options}
    settings = settings_here(folder, *inputs.write(folder / name), jurisdiction, name).model_copy(update=options)
    return stage(new_run(folder, f"{name}-{jurisdiction}"), settings, {"region": jurisdiction}, secret)


def stage(run: Any, settings: Any, options: dict[str, object], secret: bytes = bytes(32)) -> tuple[Any, Path]:
    """Run every stage up to the commit on synthetic data, with the noise of a secret and these options."""
    mark_synthetic(Path(settings.data))
    (run / "secret").write_bytes(secret)
    runner = SameNoise(options, settings, before="commit")
    runner.run()
    return run, runner.staged


def read_release(place: Path, table: str) -> list[tuple[str, ...]]:
    """The rows of t1 or t2 over all levels, in the order of the files."""
    return [tuple(row.values()) for path in sorted((place / table).glob("*.csv")) for row in read_rows(path)]
