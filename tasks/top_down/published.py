"""Measurements that were published, as what an estimate is made of: no secret, no records, nothing to spend.

A folder `measurements/` of a release tells all that an estimate needs (docs/spec/files.md#topdown-release): design.json
what was measured and how, blocks/ the public geography with the declared living quarters, and the noisy answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from spine.allocations import Allocation
from spine.geography import Geography, IntArray
from spine.settings import SpineSettings
from spine.top_down import NoisyAnswers, query_group
from tasks.lifecycle.arrow import text
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import load_object, save_object, stamp
from tasks.lifecycle.staging import drafted
from tasks.top_down.declared import QUARTERS
from tasks.top_down.design import US, Design, ProductName, exact
from tasks.top_down.geography import codes_of, plan_of, spine_digest
from tasks.top_down.run import Blocks, TopDownRun, Validated, save_blocks

if TYPE_CHECKING:
    from spine.top_down import Plan

FOLDER = "measurements"
SETTINGS_FILE, BLOCKS_FOLDER = "design.json", "blocks"
GEOGRAPHY = ("geocode", "place", "cousub", "aiannh", "school_district", "gq", "prim", "universe")
MARK = "prepared/published"  # of a run on published measurements: where they lie


def write_description(run: TopDownRun, staged: Path) -> None:
    """Write what an estimate needs beside the noisy answers: all of it public."""
    design, validated = run.design, run.validated
    told = {
        "run": run.id,
        "synthetic": validated.synthetic,
        "states": validated.states,
        "us_level": validated.nation,
        "spine_digest": spine_digest(run),
        "state_totals": {state: run.state(state).totals[int(state)] for state in validated.states},
        "region": design.region,
        "kind": design.kind,
        "products": design.products,
        "settings": {name: asdict(settings) for name, settings in design.settings.items()},
        "allocations": {
            name: {**exact(allocation), "source": allocation.source} for name, allocation in design.allocations.items()
        },
        "asked_states": design.states,
        "estimator": design.estimator,
        "rounding": design.rounding,
        "microdata": design.microdata,
        "public_files": validated.digests,
    }
    with drafted(staged, f"{FOLDER}/{SETTINGS_FILE}") as draft:
        draft.write_text(json.dumps(told, indent=1, default=str) + "\n")


def write_blocks(run: TopDownRun, state: str, staged: Path) -> None:
    """Write the public geography of a state's blocks and what is declared of them."""
    blocks = run.state(state)
    known = {name: getattr(blocks.geography, name) for name in GEOGRAPHY}
    columns = {name: pa.array(array) for name, array in known.items() if array is not None}
    columns |= {name: pa.array(blocks.quarters[:, at].astype(np.int32)) for at, name in enumerate(QUARTERS)}
    with drafted(staged, f"{FOLDER}/{BLOCKS_FOLDER}/{state}.parquet") as draft:
        pq.write_table(pa.table(columns), draft, compression="zstd")


def open_published(run: TopDownRun, folder: Path, changes: Mapping[str, Any]) -> str:
    """Make a run's directory ready for an estimate of published measurements; return the id of the run that made them.

    changes: fields of the design that are to be others, as the estimator. Raises Refused for what is no such folder.
    """
    if not (folder / SETTINGS_FILE).is_file() and (folder / FOLDER / SETTINGS_FILE).is_file():
        folder = folder / FOLDER
    try:
        told = json.loads((folder / SETTINGS_FILE).read_text())
        design = read_design(told)
        states = tuple(map(str, told["states"]))
        totals = {int(state): int(total) for state, total in told["state_totals"].items()}
        parts = [read_blocks(folder / BLOCKS_FOLDER / f"{state}.parquet") for state in states]
        missing = [state for state in states if int(state) not in totals]
        digests, synthetic, nation = told["public_files"], bool(told["synthetic"]), bool(told["us_level"])
        made_by, digest = str(told["run"]), str(told["spine_digest"])
    except FileNotFoundError as error:
        raise Refused(f"{error.filename} is not there: give the folder measurements/ of a TopDown release") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
        raise Refused(
            f"{folder}: no measurements of a TopDown release ({type(error).__name__} in {SETTINGS_FILE})"
        ) from None
    if not parts or missing:
        raise Refused(f"{folder / SETTINGS_FILE}: no state, or a state without a declared total")
    geography, quarters = zip(*parts, strict=True)
    save_object(run / "prepared/design", replace(design, measurements=False, **changes))
    save_blocks(run, Blocks(_joined(geography), np.concatenate(quarters), totals))
    save_object(run / MARK, (folder.resolve(), digest))
    save_object(run / "prepared/validated", Validated("", "", synthetic, states, nation, digests))
    return made_by


def read_design(told: Mapping[str, Any]) -> Design:
    """Return the design that a description tells (`write_description`)."""
    products: tuple[ProductName, ...] = tuple(told["products"])
    settings = {name: _settings(told["settings"][name]) for name in products}
    allocations = {name: _allocation(told["allocations"][name]) for name in products}
    asked, options = tuple(told["asked_states"]), {name: told[name] for name in ("estimator", "rounding", "microdata")}
    return Design(
        told["region"], told["kind"], products, settings, allocations, asked, bool(told["us_level"]), **options
    )


def _settings(told: Mapping[str, Any]) -> SpineSettings:
    known: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
    known["tract_group_share"] = Fraction(known["tract_group_share"])
    return SpineSettings(**known)


def _allocation(told: Mapping[str, Any]) -> Allocation:
    levels = {level: Fraction(share) for level, share in told["levels"].items()}
    queries = {level: {q: Fraction(alpha) for q, alpha in of.items()} for level, of in told["queries"].items()}
    return Allocation(told["mechanism"], Fraction(told["budget"]), levels, queries, told["source"])


def read_blocks(path: Path) -> tuple[Geography, IntArray]:
    """Return the public geography of a state's blocks and their (blocks, 8) living quarters."""
    table = pq.read_table(path)
    known = {name: table[name].to_numpy() for name in GEOGRAPHY if name in table.column_names}
    quarters = np.column_stack([table[name].to_numpy() for name in QUARTERS]).astype(np.int64)
    return Geography(**known), quarters


def _joined(parts: tuple[Geography, ...]) -> Geography:
    names = [name for name in GEOGRAPHY if getattr(parts[0], name) is not None]
    return Geography(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def is_published(run: TopDownRun) -> bool:
    """Whether a run estimates from published measurements."""
    return (run / MARK).exists()


def check_published(run: TopDownRun) -> None:
    """Refuse measurements of another spine than the one that their geography and settings give."""
    folder, digest = load_object(run / MARK)
    if spine_digest(run) != digest:
        raise Refused(f"{folder}: the blocks and settings give another spine than the one that was measured")


def measured_levels(run: TopDownRun) -> list[tuple[ProductName, str, str]]:
    """The files of noisy answers that there must be: product, state (or US) and level."""
    design, validated = run.design, run.validated
    found: list[tuple[ProductName, str, str]] = []
    for product in design.products:
        found += [(product, state, level) for state in validated.states for level in run.spine(product, state).levels]
        found += [(product, US, US)] * validated.nation
    return found


def check_file(run: TopDownRun, product: ProductName, state: str, level: str) -> None:
    """Refuse a file that lacks an answer of a geounit that was measured, or has one of another law."""
    given = published(run, product, state)
    plan, number = given.plan, given.plan.spine.levels.index(level)
    path, shares = given.path(number), plan.spine.shares[number]
    asked = plan.allocation.queries[level]
    there = np.zeros((len(asked), len(shares)), np.int64)
    try:
        file, _ = opened(path, given.codes[number])
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=["geounit", "query", "value", "share"])
            geounit = _numbers(table["geounit"], given.codes[number])
            query, share = _words(table["query"]), _words(table["share"])
            width = pa.compute.list_value_length(table["value"]).to_numpy()
            for at, name in enumerate(asked):
                here = query == name
                if (width[here] != query_group(plan.product, name).width).any():
                    raise Refused(f"{path}: answers to {name} of another length than it has coordinates")
                stated = np.array([Fraction(word) * plan.spine.denominator for word in np.unique(share[here]).tolist()])
                of = stated[np.unique(share[here], return_inverse=True)[1]] if here.any() else stated
                if (of != shares[geounit[here]]).any():
                    raise Refused(f"{path}: answers to {name} with another share than the spine gives")
                np.add.at(there[at], geounit[here], 1)
    except FileNotFoundError:
        raise Refused(f"{path} is not there") from None
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise Refused(f"{path}: no measurements of a TopDown release ({type(error).__name__})") from None
    if (there != (shares > 0)).any():
        row, column = (int(index[0]) for index in np.nonzero(there != (shares > 0)))
        which = f"{list(asked)[row]} of geounit {given.codes[number][column].as_py() or US}"
        raise Refused(f"{path}: {there[row, column]} answers to {which}, not {int(shares[column] > 0)}")


@dataclass(frozen=True)
class Published:
    """The published measurements of a state, or (US) of the nation: what `Measuring` would answer, read from files.

    codes: of the geounits of every level. parts: of the nation, the states, whose parts are its second level.
    """

    folder: Path
    product: ProductName
    state: str
    plan: Plan
    codes: tuple[pa.Array, ...]
    parts: tuple[Published, ...] = ()

    def path(self, level: int) -> Path:
        """The file of a level."""
        return self.folder / self.product / self.plan.spine.levels[level] / f"{self.state}.parquet"

    def __call__(self, level: int, first: int, last: int) -> NoisyAnswers:
        """The noisy answers of the geounits first ... last - 1 of a level; rows with the share 0 are void."""
        asked = self.plan.allocation.queries[self.plan.spine.levels[level]]
        if self.parts and level:
            each = [part(0, 0, len(part.codes[0])).answers for part in self.parts]
            joined = {query: np.concatenate([answers[query] for answers in each]) for query in asked}
            return NoisyAnswers(first, last, {query: values[first:last] for query, values in joined.items()})
        answers = {
            query: np.zeros((last - first, query_group(self.plan.product, query).width), np.int64) for query in asked
        }
        file, bounds = opened(self.path(level), self.codes[level])
        for group in np.flatnonzero((bounds[:, 0] < last) & (bounds[:, 1] >= first)).tolist():
            table = file.read_row_group(group, columns=["geounit", "query", "value"])
            geounit, query = _numbers(table["geounit"], self.codes[level]), _words(table["query"])
            inside = (geounit >= first) & (geounit < last)
            for name, values in answers.items():
                at = np.flatnonzero(inside & (query == name))
                rows = table["value"].combine_chunks().take(pa.array(at))
                values[geounit[at] - first] = rows.flatten().to_numpy().reshape(-1, values.shape[1])
        return NoisyAnswers(first, last, answers)


_OPENED: dict[Path, tuple[tuple[int, int], pq.ParquetFile, IntArray]] = {}  # of this process; a run has few


def opened(path: Path, codes: pa.Array) -> tuple[pq.ParquetFile, IntArray]:
    """A file of noisy answers, and the first and the last geounit of each of its row groups; kept from call to call."""
    now = stamp(path)
    if path not in _OPENED or _OPENED[path][0] != now:
        file, bounds = pq.ParquetFile(path), []
        for group in range(file.num_row_groups):
            numbers = _numbers(file.read_row_group(group, columns=["geounit"])["geounit"], codes)
            bounds.append((numbers.min(initial=len(codes)), numbers.max(initial=-1)))
        _OPENED[path] = now, file, np.array(bounds, np.int64).reshape(-1, 2)
    return _OPENED[path][1:]


def _words(column: pa.ChunkedArray) -> Any:
    return column.cast(pa.string()).to_numpy()


def _numbers(geounit: pa.ChunkedArray, codes: pa.Array) -> IntArray:
    """The number of each geounit in the spine's order. ValueError for one that is not there."""
    found = pa.compute.index_in(geounit.cast(pa.large_string()), value_set=codes)
    if found.null_count:
        raise ValueError("a geounit that is not on the spine")
    numbers: IntArray = found.to_numpy().astype(np.int64)
    return numbers


def published(run: TopDownRun, product: ProductName, state: str) -> Published:
    """The published measurements of a state or of the nation."""
    folder, _ = load_object(run / MARK)
    plan = plan_of(run, product, state)
    if state != US:
        return Published(folder, product, state, plan, tuple(map(text, codes_of(run, product, state))))
    parts = tuple(published(run, product, one) for one in run.validated.states)
    return Published(folder, product, state, plan, (text(np.zeros((1, 0), np.uint8)),), parts)
