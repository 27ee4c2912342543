"""Measurements that were published, as what an estimate is made of: no secret, no records, nothing to spend.

A folder `measurements/` of a release tells all that an estimate needs (docs/spec/files.md#topdown-release): design.json
what was measured and how, blocks/ the public geography with the declared living quarters, and the noisy answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from privacy.accounting.states import STATES_PR, STATES_US
from spine.allocations import Allocation
from spine.geography import BadGeography, Geography, IntArray, checked
from spine.settings import Jurisdiction, SpineSettings, settings_for
from spine.top_down import NoisyAnswers, query_group
from tasks.inputs.arrow import text
from tasks.inputs.files import locate_file, open_file, read_text
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import load_object, save_object, stamp
from tasks.lifecycle.manifest import parse_exact
from tasks.lifecycle.staging import release_file
from tasks.top_down.input.geography import codes_of, plan_of, spine_digest
from tasks.top_down.input.invariants_input import QUARTERS
from tasks.top_down.run import Blocks, TopDownRun, Validated, save_blocks
from tasks.top_down.run_plan import (
    ENGINE,
    ESTIMATORS,
    KINDS,
    PRODUCTS,
    US,
    Design,
    ProductName,
    check_allocation,
    exact,
)

if TYPE_CHECKING:
    from spine.top_down import Plan

FOLDER = "measurements"
SETTINGS_FILE, BLOCKS_FOLDER = "design.json", "blocks"
GEOGRAPHY = ("geocode", "place", "cousub", "aiannh", "school_district", "gq", "prim", "universe")
UNREADABLE = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError),
    pa.ArrowException,
)
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
        "region": design.jurisdiction,
        "kind": design.kind,
        "products": design.products,
        "settings": {name: settings.described() for name, settings in design.settings.items()},
        "allocations": {
            name: {**exact(allocation), "source": allocation.source} for name, allocation in design.allocations.items()
        },
        "asked_states": design.states,
        "estimator": design.estimator,
        "rounding": design.rounding,
        "microdata": design.microdata,
        "public_files": validated.digests,
    }
    with release_file(staged, f"{FOLDER}/{SETTINGS_FILE}") as draft:
        draft.write_text(json.dumps(told, indent=1, default=str) + "\n")


def write_blocks(run: TopDownRun, state: str, staged: Path) -> None:
    """Write the public geography of a state's blocks and what is declared of them."""
    blocks = run.state(state)
    known = {name: getattr(blocks.geography, name) for name in GEOGRAPHY}
    columns = {name: pa.array(array) for name, array in known.items() if array is not None}
    columns |= {name: pa.array(blocks.quarters[:, at].astype(np.int32)) for at, name in enumerate(QUARTERS)}
    with release_file(staged, f"{FOLDER}/{BLOCKS_FOLDER}/{state}.parquet") as draft:
        pq.write_table(pa.table(columns), draft, compression="zstd")


def open_published(run: TopDownRun, folder: Path, changes: Mapping[str, Any]) -> str:
    """Make a run's directory ready for an estimate of published measurements; return the id of the run that made them.

    changes: fields of the design that are to be others, as the estimator. Raises Refused for what is no such folder.
    """
    if not (folder / SETTINGS_FILE).is_file() and (folder / FOLDER / SETTINGS_FILE).is_file():
        folder = folder / FOLDER
    try:
        told = json.loads(read_text(folder / SETTINGS_FILE))
        design, states = read_design(told), tuple(map(str, told["states"]))
        totals = {int(state): int(total) for state, total in told["state_totals"].items()}
        if not all(0 <= total < 10**9 for total in totals.values()):
            raise ValueError("a total that no state has")
        parts = [read_blocks(folder / BLOCKS_FOLDER / f"{state}.parquet", state) for state in states]
        fewest = {state: int(quarters[:, 1:].sum()) for state, (_, quarters) in zip(states, parts, strict=True)}
        missing = [state for state in states if totals.get(int(state), -1) < fewest[state]]
        digests, synthetic, nation = dict(told["public_files"]), bool(told["synthetic"]), bool(told["us_level"])
        made_by, digest = str(told["run"]), str(told["spine_digest"])
    except FileNotFoundError as error:
        raise Refused(f"{error.filename} is not there: give the folder measurements/ of a TopDown release") from None
    except UNREADABLE as error:
        raise Refused(
            f"{folder}: no measurements of a TopDown release ({type(error).__name__} in {SETTINGS_FILE})"
        ) from None
    if not parts or missing:
        raise Refused(
            f"{folder / SETTINGS_FILE}: no state, or a state without a declared total of a person in each facility"
        )
    geography, quarters = zip(*parts, strict=True)
    save_object(run / "prepared/design", replace(design, measurements=False, **changes))
    save_blocks(run, Blocks(_joined(geography), np.concatenate(quarters), totals))
    save_object(run / MARK, (folder.resolve(), digest))
    save_object(run / "prepared/validated", Validated("", "", synthetic, states, nation, digests))
    return made_by


STATES = {"us": STATES_US, "pr": STATES_PR}
CHOICES: dict[str, tuple[object, ...]] = {  # of what design.json says
    "region": tuple(STATES),
    "kind": KINDS,
    "estimator": ESTIMATORS,
    "rounding": ("program", "l1"),
    "microdata": ("parquet", "text"),
    "us_level": (True, False),
}


def read_design(told: Mapping[str, Any]) -> Design:
    """Return the design that a description tells (`write_description`). Raises Refused, ValueError, KeyError."""
    products: tuple[ProductName, ...] = tuple(told["products"])
    for name, choices in CHOICES.items():
        if told[name] not in choices:
            raise Refused(f"{SETTINGS_FILE}: {name} is {told[name]!r}, not one of {', '.join(map(str, choices))}")
    if not products or set(products) - set(PRODUCTS) or len(set(products)) < len(products):
        raise Refused(f"{SETTINGS_FILE}: products are {', '.join(map(str, products))}, not {' and '.join(PRODUCTS)}")
    if told["us_level"] and told["region"] == "pr":
        raise Refused(f"{SETTINGS_FILE}: Puerto Rico has no US level")
    if told["states"] != [state for state in STATES[told["region"]] if state in told["states"]]:
        raise Refused(
            f"{SETTINGS_FILE}: states are {told['states']}, not sorted codes of jurisdiction {told['region']}"
        )
    settings = {name: _settings(told["settings"][name], name, told["region"]) for name in products}
    allocations = {name: _allocation(told["allocations"][name]) for name in products}
    for name in products:
        check_allocation(name, allocations[name], settings[name])
    mechanisms = {of.mechanism for of in settings.values()} | {of.mechanism for of in allocations.values()}
    if len(mechanisms) > 1:
        raise Refused(f"{SETTINGS_FILE}: the mechanisms {' and '.join(sorted(mechanisms))} in one run")
    asked, options = tuple(told["asked_states"]), {name: told[name] for name in ("estimator", "rounding", "microdata")}
    return Design(
        told["region"], told["kind"], products, settings, allocations, asked, bool(told["us_level"]), **options
    )


def _settings(told: Mapping[str, Any], product: ProductName, jurisdiction: Jurisdiction) -> SpineSettings:
    """The settings of a product's spine; ValueError where none can be built."""
    known: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
    if (known.pop("product"), known.pop("region")) != (ENGINE[product], jurisdiction):
        raise Refused(f"{SETTINGS_FILE}: the settings of {product} are of another product or jurisdiction")
    known["tract_group_share"] = parse_exact(known["tract_group_share"])
    del known["levels"]  # they follow from the others
    return settings_for(ENGINE[product], jurisdiction, known.pop("variant"), **known)


def _allocation(told: Mapping[str, Any]) -> Allocation:
    levels = {level: parse_exact(share) for level, share in told["levels"].items()}
    queries = {level: {q: parse_exact(alpha) for q, alpha in of.items()} for level, of in told["queries"].items()}
    return Allocation(told["mechanism"], parse_exact(told["budget"]), levels, queries, told["source"])


def read_blocks(path: Path, state: str) -> tuple[Geography, IntArray]:
    """Return the geography of a state's blocks and their (blocks, 8) living quarters.

    Raises Refused, ValueError, KeyError for what are none.
    """
    with open_file(path) as stream:
        table = pq.read_table(stream)
    columns = [name for name in (*GEOGRAPHY, *QUARTERS) if name in table.column_names or name in QUARTERS]
    if any(table[name].null_count or pa.types.is_floating(table.schema.field(name).type) for name in columns):
        raise Refused(f"{path}: a column is not of whole numbers, or one is missing")
    geography = Geography(**{name: table[name].to_numpy() for name in columns if name in GEOGRAPHY})
    quarters = np.column_stack([table[name].to_numpy() for name in QUARTERS]).astype(np.int64)
    if (quarters < 0).any() or not quarters.sum(axis=1).all():
        raise Refused(f"{path}: a block has no living quarters, or fewer than none")
    if (np.diff(geography.geocode) <= 0).any() or set(geography.state.tolist()) != {int(state)}:
        raise Refused(f"{path}: the blocks are not those of state {state}, each once and sorted")
    try:
        return checked(geography), quarters
    except BadGeography as error:
        raise Refused(f"{path}: {error}") from None


def _joined(parts: Sequence[Geography]) -> Geography:
    names = [name for name in GEOGRAPHY if getattr(parts[0], name) is not None]
    return Geography(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def is_published(run: TopDownRun) -> bool:
    """Whether a run estimates from published measurements."""
    return (run / MARK).exists()


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
            geounit, query = numbers(table["geounit"], self.codes[level]), _words(table["query"])
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
        locate_file(str(path))  # a pipe would never end
        file, bounds = pq.ParquetFile(path), []
        for group in range(file.num_row_groups):
            rows = numbers(file.read_row_group(group, columns=["geounit"])["geounit"], codes)
            bounds.append((rows.min(initial=len(codes)), rows.max(initial=-1)))
        _OPENED[path] = now, file, np.array(bounds, np.int64).reshape(-1, 2)
    return _OPENED[path][1:]


def _words(column: pa.ChunkedArray) -> Any:
    return column.cast(pa.string()).to_numpy()


def numbers(geounit: pa.ChunkedArray, codes: pa.Array) -> IntArray:
    """The number of each geounit in the spine's order. ValueError for one that is not there."""
    found = pa.compute.index_in(geounit.cast(pa.large_string()), value_set=codes)
    if found.null_count:
        raise ValueError("a geounit that is not on the spine")
    rows: IntArray = found.to_numpy().astype(np.int64)
    return rows


def published(run: TopDownRun, product: ProductName, state: str) -> Published:
    """The published measurements of a state or of the nation."""
    folder, _ = load_object(run / MARK)
    plan = plan_of(run, product, state)
    if state != US:
        return Published(folder, product, state, plan, tuple(map(text, codes_of(run, product, state))))
    parts = tuple(published(run, product, one) for one in run.validated.states)
    return Published(folder, product, state, plan, (text(np.zeros((1, 0), np.uint8)),), parts)
