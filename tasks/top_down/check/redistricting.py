"""Check a release of the redistricting data from its files alone: statements, counts, measurements, then margins.

What the manifest must state follows from the design in it, its tables and its measurements. Not checked, because no
file of a release shows it: the noise itself, standard errors, and, where the measurements and with them the block table
are not released, the sums over off-spine entities.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.csv
from pydantic import Field

from privacy.noise.exact import parse_exact
from tasks.lifecycle.staging import PIPES
from tasks.releases.check import Check, NotChecked, check_same
from tasks.releases.manifest import mark_of
from tasks.releases.received import path_in, read_in, read_json
from tasks.releases.release_database import ReleaseDatabase
from tasks.releases.statements import OF_THE_RUN, PUBLIC_FILE, Digest, Line, Unshown
from tasks.top_down.check.counts import check_counts, check_margins
from tasks.top_down.check.measurements import BureauLayout, check_own_layout
from tasks.top_down.release.design_file import (
    GEOGRAPHY,
    MEASUREMENTS,
    SETTINGS_PATH,
    described_measurements,
    read_design,
)
from tasks.top_down.release.manifest import OF_OUR_MEASUREMENTS, STATEMENTS, designed, measured
from tasks.top_down.release.stage_release import cell_files
from tasks.top_down.release.tables import has_measurements, spine_files
from tasks.top_down.run_plan import US, Design, ProductName
from tasks.top_down.source import Validated

NO_BLOCKS = "the spine is of blocks, which are released with the measurements alone"
SOLVED = "how parents were solved is shown by no other file"
HOW_SOLVED = {
    "solved": Unshown(Annotated[dict[str, dict[str, Any]], Field()], SOLVED),
    "failed": Unshown(Annotated[list[dict[str, Any]], Field()], SOLVED),
}


def statements(release: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statements of a release besides those of every release."""
    design, nation = read_design(manifest), bool(manifest["spine"]["us_level"])
    states, files = tuple(map(str, manifest["states"])), dict(manifest["public_files"])
    source, truth = manifest.get("source"), "NOT_PRIVATE" in manifest
    of_bureau, drawn = source is not None and "measured_by" not in source, not truth and "ESTIMATE" not in manifest
    unsaid = [*STATEMENTS] if truth else OF_OUR_MEASUREMENTS if of_bureau else ()
    expected = designed(design, states, files, nation=nation, drawn=drawn, unsaid=unsaid)
    with ReleaseDatabase(release) as database:
        totals: dict[str, Any] = dict(_totals(database, release, design, states))
        products = {name: _product(database, release, manifest, design, name) for name in design.products}
    return expected | {
        **({"ESTIMATE": Unshown(Line, OF_THE_RUN)} if "ESTIMATE" in manifest else {}),
        **({"source": Unshown(dict[str, Any], OF_THE_RUN)} if source is not None else {}),
        "public_files": dict.fromkeys(files, Unshown(Digest, PUBLIC_FILE)),
        "state_totals": totals or dict.fromkeys(states, Unshown(int, "no table of persons shows the declared total")),
        "spine": {
            "kind": design.kind,
            "us_level": design.with_nation(states),
            "digest": manifest["spine"]["digest"] if has_measurements(manifest) else Unshown(Digest, NO_BLOCKS),
        },
        "products": products,
    }


def _totals(database: ReleaseDatabase, release: Path, design: Design, states: tuple[str, ...]) -> dict[str, int]:
    """Return the persons of each state in its histograms, which are the declared totals; none without persons."""
    if "persons" not in design.products:
        return {}
    root = next(level for level in design.settings["persons"].levels if level != US)
    paths = {state: path_in(release, f"histograms/persons/{root}/{state}.parquet") for state in states}
    sums = {s: f"SELECT coalesce(sum(count), 0)::BIGINT FROM {database.parquet(path)}" for s, path in paths.items()}
    return {state: int(database.execute(select).fetchall()[0][0]) for state, select in sums.items()}


def _product(
    database: ReleaseDatabase, release: Path, manifest: Mapping[str, Any], design: Design, product: ProductName
) -> dict[str, Any]:
    """Return the statements of a product: its budget, geounits, shares and laws."""
    stated, allocation = manifest["products"][product], design.allocations[product]
    levels = [
        level
        for level in design.settings[product].levels
        if level != US or design.with_nation(tuple(manifest["states"]))
    ]
    geounits: dict[str, int] = dict.fromkeys(levels, 0)
    shares: dict[str, set[Fraction]] = {level: set() for level in levels}
    for level, state in spine_files({**manifest, "products": {product: {"geounits": geounits}}}, product):
        name = f"{product}/{level}/{state}.parquet"
        select = f"SELECT count(DISTINCT geounit) FROM {database.parquet(path_in(release, f'invariants/{name}'))}"
        geounits[level] += database.execute(select).fetchall()[0][0]
        if has_measurements(manifest):
            rows = f"SELECT DISTINCT share::VARCHAR FROM {database.parquet(path_in(release, f'{MEASUREMENTS}/{name}'))}"
            shares[level] |= {parse_exact(share) for (share,) in database.execute(rows).fetchall()}
    if not has_measurements(manifest):
        shares = {level: stated_shares(stated, level) for level in levels}
    ascending = {level: sorted(own) for level, own in shares.items()}
    has_margins = any(name.startswith(f"margins/{product}/") for name in manifest["files"])
    return {
        "budget": str(allocation.budget),
        "allocation": allocation.source,
        "geounits": geounits,
        **({} if "NOT_PRIVATE" in manifest else measured(allocation, levels, ascending)),
        **({"margins": Unshown(dict[str, Any], "estimates are not made again")} if has_margins else {}),
        **HOW_SOLVED,
    }


def stated_shares(stated: Mapping[str, Any], level: str) -> set[Fraction]:
    """Return the shares that a manifest states of a level's geounits, where no measurements show them."""
    with suppress(KeyError, TypeError, ValueError):
        return {parse_exact(row["share"]) for row in stated["noise"] if row["level"] == level}
    return set()


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check | NotChecked]:
    """Check the lists of cells, then every count that is released twice, the measurements and the margins."""
    yield from not_checked(manifest)
    yield from check_public_files(release, manifest)
    with ReleaseDatabase(release) as database:
        for product, entry in manifest["products"].items():
            yield from check_counts(database, release, manifest, product)
            if manifest["options"].get("nmf") and "noise" in entry:
                yield BureauLayout(database, release, manifest, product).check()
            if "margins" in entry:
                yield from check_margins(database, release, manifest, product)
    if has_measurements(manifest):
        yield from check_own_layout(release, manifest)


def not_checked(manifest: Mapping[str, Any]) -> Iterator[NotChecked]:
    """Yield what no check covers: that the numbers are those of a run, and what shows no number twice."""
    yield NotChecked("names.csv*", "names are public, and of no file of the release")
    yield NotChecked("points.csv*", "points are public, and of no file of the release")
    if not has_measurements(manifest):
        yield NotChecked("products.*.noise.*.share", "the noisy measurements are not released")
        yield NotChecked("histograms/*/entities/*", "the blocks of entities are released with the measurements alone")
    else:
        yield NotChecked("measurements/*: value", "noise is shown by nothing but itself")
        areas = ", ".join(name for name in GEOGRAPHY if name != "geocode")
        yield NotChecked(f"measurements/blocks/*: {areas}", "the areas of blocks are public, and in no other file")
    if any(name.startswith("margins/") for name in manifest["files"]):
        yield NotChecked("margins/*: estimate", "estimates are not made again")
        yield NotChecked("margins/*: standard_error", "estimates are not made again")


def check_public_files(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check]:
    """Compare the lists of cells with the products, and the description of the measurements with the manifest."""
    design = read_design(manifest)
    for product in design.products:
        for file, table in cell_files(product, pl94=design.pl94).items():
            content = pa.BufferOutputStream()
            pa.csv.write_csv(table, content, PIPES)
            same = content.getvalue().to_pybytes() == read_in(release, file)
            yield Check(file, f"{len(table)} rows", () if same else ("it is not the list of the product's cells",))
    if has_measurements(manifest):
        facts = mark_of(manifest), tuple(manifest["states"]), manifest["spine"]["us_level"], manifest["public_files"]
        made = manifest["spine"]["digest"], manifest["state_totals"]
        content_of = described_measurements(manifest["run"], design, Validated("", (), *facts), *made)
        stated = read_json(release, SETTINGS_PATH)
        yield check_same(SETTINGS_PATH, "the manifest", json.loads(json.dumps(content_of)), stated)
