"""A small made-up country for the TopDown Algorithm: blocks, records and invariants, and runs on it in one process."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
from dhca_inputs import HERE

from flows.execution.runner import InProcess
from flows.execution.top_down_settings import TopDownSettings
from spine.production import allocation_for
from spine.settings import Jurisdiction, settings_for
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers
from tasks.records.files import digest_file
from tasks.records.marks import MARK_FILE, Mark, save_mark
from tasks.synth.synthesize import synthesize_top_down
from tasks.top_down.input.block_run import TopDownRun
from tasks.top_down.published.estimate import end_sources, write_estimate, write_sources
from tasks.top_down.published.nmf.source import FileRequest
from tasks.top_down.published.open_published import find_published
from tasks.top_down.release.stage_release import write_release
from tasks.top_down.run_plan import PRODUCTS, SCHEMAS, Design, Tables

GRF = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE", "TABBLK", "PLACEFP", "COUSUBFP", "AIANNHCE", "POP")


def country(folder: Path, states: tuple[str, ...] = ("23", "46"), seed: int = 3, form: Any = "text") -> Path:
    """A folder DATA of a country of some 25 blocks a state, marked synthetic: two counties, one with an AIAN area."""
    rng = random.Random(seed)
    rows = [
        (state, county, tract, block[0], block, place, cousub, area, rng.choice((0, 3, 12, 40, 90, 150)))
        for state in states
        for county in ("001", "003")
        for tract in ("000100", "000200")
        for number in range(6)
        for block in [f"{1 + number // 3}{number:03d}"]
        for place in [rng.choice(("99999", "10000", "20000"))]
        for cousub in [f"{rng.choice((1, 2))}{county}5"[:5].zfill(5)]
        for area in ["2430" if county == "003" and number < 2 and state != "72" else "9999"]
    ]
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "blocks.txt"
    source.write_text("\n".join("|".join(map(str, row)) for row in [GRF, *rows]) + "\n")
    jurisdiction: Jurisdiction = "pr" if states == ("72",) else "us"
    data = synthesize_top_down(source, folder / "data", seed=seed, jurisdiction=jurisdiction, form=form).data
    (data / "names.csv").write_text("REGION_TYPE|REGION_ID|NAME\nAIANNH|2430|A Reservation\nPLACE|0110000|Elsewhere\n")
    return data


def tables(data: Path, products: tuple[str, ...] = PRODUCTS) -> Tables:
    """The files of a folder DATA."""

    records = {name: str(next(data.glob(f"{name}.*"))) for name in products}
    return Tables(records, str(data), *(str(data / name) for name in ("GRF-C.txt", "quarters.csv", "states.csv")))


def design(
    jurisdiction: Jurisdiction = "us", products: tuple[str, ...] = ("persons", "units"), **options: Any
) -> Design:
    """A design of production's settings."""
    definition = options.pop("definition", "zcdp")
    budget = options.pop("budget", None)
    settings = {name: settings_for(SCHEMAS[name].name, jurisdiction, definition=definition) for name in products}
    allocations = {name: allocation_for(settings[name], budget) for name in products}
    return Design(jurisdiction, options.pop("kind", "optimized"), products, settings, allocations, **options)


class Given(TopDownSettings):
    """Settings of a run whose design is given as it is."""

    made: Any

    def design(self) -> Design:
        return self.made  # type: ignore[no-any-return]


def settings_with(folder: Path, data: Path, made: Design, name: str = "run", account: str | None = None) -> Given:
    """The settings of a run whose directory is FOLDER/runs/NAME."""
    return Given(
        data=str(data),
        out=str(folder / "out"),
        jurisdiction=made.jurisdiction,
        products=made.products,
        account=account,
        runs_folder=str(folder),
        ledger=str(folder / "ledger.sqlite"),
        run_id=name,
        made=made,
    )


def begin(
    folder: Path,
    data: Path,
    made: Design,
    secret: bytes = bytes(32),
    workers: Workers = HERE,
    account: str | None = None,
) -> TopDownRun:
    """A run after all stages before noise. Its secret is fixed, so that runs can be compared."""
    settings = settings_with(folder, data, made, account=account)
    run = settings.directory
    run.create()
    if account is None:  # else the reservation makes one
        (run / "secret").write_bytes(secret)
    InProcess(settings, workers, before="measure").run()
    return run


def finish(run: TopDownRun, folder: Path, workers: Workers = HERE, before: str = "commit") -> Path:
    """Draw, estimate and stage the release of a run, or end before another stage; returns its staging folder."""
    settings = settings_with(folder, Path(run.tables.marks), run.design)
    done = {"validate": run.validated, "histograms": None, "reserve budget": None}
    runner = InProcess(settings, workers, before=before, done=done, directory=run)
    runner.run()
    return runner.staged


def estimated(
    folder: Path,
    measurements: Path,
    totals: Path | None = None,
    geography: Path | None = None,
    workers: Workers = HERE,
    write: Callable[[Any, Workers, Path], None] = partial(write_estimate, write=write_release),
    asked: Mapping[str, Any] | None = None,
    **changes: object,
) -> list[Path]:
    """The releases of an estimate from published measurements, as FOLDER/out/us. asked: more of the Bureau's files."""
    request = FileRequest(totals and str(totals), geography and str(geography), **(asked or {}))
    published = find_published(measurements, request)
    directories = [RunDirectory(folder / f"runs/estimate-{number}") for number in range(len(published))]
    for directory in directories:
        directory.create()
    places = zip(published, directories, strict=True)
    sources = [each.read(directory.path, workers, changes, ()) for each, directory in places]
    releases = write_sources(sources, workers, folder / "out", write)
    end_sources(directories, folder / "out")
    return releases


def read(folder: Path, pattern: str) -> pd.DataFrame:
    """All released tables of a pattern, concatenated."""
    parts = [pq.read_table(path).to_pandas() for path in sorted(folder.glob(pattern))]
    table = pd.concat(parts, ignore_index=True)
    return table.astype({name: str for name in table if isinstance(table[name].dtype, pd.CategoricalDtype)})


def damage(path: Path) -> None:
    """Overwrite the pages of a Parquet file, and leave its footer."""
    content = bytearray(path.read_bytes())
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    content[4:end:7] = b"\x55" * len(content[4:end:7])
    path.write_bytes(content)


def remark(data: Path) -> None:
    """Mark changed files as synthetic again."""
    names = [path.name for path in sorted(data.iterdir()) if path.name != MARK_FILE]
    save_mark(data, Mark("a test", "1", None, {name: digest_file(str(data / name)) for name in names}))


def edited(data: Path, name: str, change: Callable[[list[str]], list[str]]) -> None:
    """Change the lines of a file, and mark the data again."""
    path = data / name
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")
    remark(data)
