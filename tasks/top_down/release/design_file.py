"""Write and read the public description of released measurements: all that an estimate needs besides the answers.

In the folder `measurements/` of a release (docs/spec/files.md#topdown-release): design.json, what was measured and how;
blocks/SS.parquet, the public geography with the declared living quarters. Measurements that were imported from the
Census Bureau's files also have geounits/PRODUCT/SS.parquet, the blocks of a spine in its order (number in the
geography, geocode): their spine is read, not made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privacy.accounting.states import STATES_PR, STATES_US
from spine.geocodes import form as geocode_form
from spine.geography import BadGeography, Geography, IntArray, checked
from spine.settings import settings_for
from tasks.errors import Refused
from tasks.lifecycle.staging import release_file, write_table
from tasks.lifecycle.typed_json import BadValue, decode
from tasks.records.arrow import text
from tasks.releases.manifest import MANIFEST, mark_facts, mark_in
from tasks.releases.received import NotOfRelease, path_in, read_json
from tasks.top_down.blocks import BlockSource
from tasks.top_down.input.public_input import QUARTERS
from tasks.top_down.run_plan import SCHEMAS, Design, check_allocation
from tasks.top_down.source import Branch, Origin, Validated

MEASUREMENTS = "measurements"
SETTINGS_FILE, BLOCKS_FOLDER, GEOUNITS_FOLDER = "design.json", "blocks", "geounits"
SETTINGS_PATH = f"{MEASUREMENTS}/{SETTINGS_FILE}"  # in a release of blocks
DECLARED_FILE = f"{MEASUREMENTS}/declared.json"
GEOGRAPHY = ("geocode", "place", "cousub", "aiannh", "school_district", "gq", "prim", "universe")
UNREADABLE = (  # what reading a file of another kind or make may raise
    *(OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError),
    pa.ArrowException,
)
STATES = {"us": STATES_US, "pr": STATES_PR}
FIELDS = {"region": "jurisdiction", "mechanism": "definition"}  # names of settings and allocations by those in files
FOLLOWING = ("product", "jurisdiction", "variant", "levels")  # fields of settings that follow from other facts


@dataclass(frozen=True)
class DesignFile:
    """The content of design.json in a folder. totals: declared population by state code.

    validated: without digests of records. widths: the digits of each level's geocodes by product, for imported
        measurements.
    """

    folder: Path = field(repr=False)
    origin: Origin
    design: Design
    totals: dict[int, int]
    spine_digest: str
    validated: Validated
    widths: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def write_description(source: BlockSource, staged: Path) -> None:
    """Write design.json of a run's measurements."""
    design, validated = source.design, source.validated
    totals = {state: source.state(state).totals[int(state)] for state in validated.states}
    content = described_measurements(source.id, design, validated, source.spine_digest(), totals)
    if (origin := source.origin) is not None:  # read from the Census Bureau's files
        codes = {name: source.codes(source.branches_of(name)[0]) for name in design.products}
        content["widths"] = {name: [level.shape[1] for level in of_product] for name, of_product in codes.items()}
        content["source"] = origin.facts
    with release_file(staged, SETTINGS_PATH) as draft:
        draft.write_text(json.dumps(content, indent=1, default=str) + "\n", "utf-8")


def described_measurements(
    run: str, design: Design, validated: Validated, spine: str, totals: Mapping[str, int]
) -> dict[str, Any]:
    """Return the content of design.json. totals: the declared population by state."""
    described = described_design(design)
    names = ("region", "kind", "geocodes", "products", "settings", "allocations")
    return {
        "run": run,
        **mark_facts(validated.mark),
        "states": list(validated.states),
        "us_level": validated.nation,
        "spine_digest": spine,
        "state_totals": dict(totals),
        **{name: described[name] for name in names},
        "asked_states": described["states"],
        **{name: described[name] for name in ("estimator", "microdata")},
        "public_files": validated.digests,
    }


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Refuse a folder of measurements in which reading meets what is missing, damaged or of another kind."""
    try:
        yield
    except NotOfRelease as fault:
        raise Refused(f"{folder}: {fault}; give the folder {MEASUREMENTS}/ of a TopDown release") from None
    except UNREADABLE as error:
        raise Refused(
            f"{folder}: no measurements of a TopDown release ({type(error).__name__} in {SETTINGS_FILE})"
        ) from None


def read_description(folder: Path) -> DesignFile:
    """Read design.json of a folder of measurements. Raises Refused, or one of UNREADABLE."""
    content = read_json(folder, SETTINGS_FILE)
    totals = {int(state): int(total) for state, total in content["state_totals"].items()}
    if not all(0 <= total < 10**9 for total in totals.values()):
        raise ValueError("a total that no state has")
    facts, states = dict(content.get("source", {})), tuple(map(str, content["states"]))
    run = facts.get("measured_by", "") if facts else str(content["run"])
    if run == "" or not isinstance(run, str | None):
        raise NotOfRelease(f"{SETTINGS_FILE} does not say who measured: source.measured_by is a run, or null")
    return DesignFile(
        folder=folder,
        origin=Origin(run, facts),
        design=_read_design(content),
        totals=totals,
        spine_digest=str(content["spine_digest"]),
        validated=Validated("", (), mark_in(content), states, bool(content["us_level"]), dict(content["public_files"])),
        widths={product: tuple(map(int, widths)) for product, widths in content.get("widths", {}).items()},
    )


def described_design(design: Design) -> dict[str, Any]:
    """Return a design as a manifest has it, with the form of the geocodes; `read_design` reads it."""
    return {**design.described(), "geocodes": geocode_form(design.settings[design.products[0]], design.kind)}


def read_design(manifest: Mapping[str, Any]) -> Design:
    """Read the design of a release from its manifest. Raises Refused, or one of UNREADABLE."""
    stated = manifest["design"]
    facts = {"states": manifest["states"], "us_level": manifest["spine"]["us_level"], "asked_states": stated["states"]}
    facts |= {"widths": {}} if "source" in manifest else {}
    design = replace(
        _read_design({**stated, **facts}, MANIFEST),
        nation=stated["nation"],
        measurements=stated["measurements"],
        pl94="pl94" in stated,
    )
    if described_design(design) != stated:
        raise Refused(f"{MANIFEST}: its design is not one that a run may have")
    return design


def _read_design(content: Mapping[str, Any], file: str = SETTINGS_FILE) -> Design:
    """Return the design that a received file describes. Raises Refused, or one of UNREADABLE."""
    stated = {name: content[name] for name in ("products", "kind", "estimator", "microdata")}
    stated |= {"jurisdiction": content["region"], "states": content["asked_states"], "nation": content["us_level"]}
    for part in ("settings", "allocations"):
        own = content[part].items()
        stated[part] = {product: {FIELDS.get(name, name): each[name] for name in each} for product, each in own}
    try:
        design: Design = decode(Design, {**stated, "measurements": "parquet", "pl94": False}, [])
    except BadValue as fault:
        raise Refused(f"{file}: {fault}") from None
    jurisdiction, products, states = design.jurisdiction, design.products, content["states"]
    if {*products} - {*SCHEMAS}:
        raise Refused(f"{file}: products: not one of {', '.join(SCHEMAS)}")
    if not products or any(sorted(part) != sorted(products) for part in (design.settings, design.allocations)):
        raise Refused(f"{file}: products are {', '.join(products)}, each once with its settings and allocation")
    if design.nation and jurisdiction == "pr":
        raise Refused(f"{file}: Puerto Rico has no US level")
    if states != [state for state in STATES[jurisdiction] if state in states]:
        raise Refused(f"{file}: states are {states}, not sorted codes of jurisdiction {jurisdiction}")
    for name in products:
        settings, allocation, product = design.settings[name], design.allocations[name], SCHEMAS[name].name
        free = {field: value for field, value in vars(settings).items() if field not in FOLLOWING}
        if settings != settings_for(product, jurisdiction, settings.variant, **free):
            raise Refused(f"{file}: the settings of {name} are of another product, jurisdiction or levels")
        if "widths" not in content:  # published files may lack levels and queries
            check_allocation(name, allocation, settings)
    geocodes = geocode_form(design.settings[products[0]], design.kind)
    if content.get("geocodes") != geocodes:
        raise Refused(
            f"{file}: geocodes of the form {content.get('geocodes')!r}, and this version reads {geocodes!r}: "
            "use the version of das-flows that made the release"
        )
    definitions = {part.definition for name in products for part in (design.settings[name], design.allocations[name])}
    if len(definitions) > 1:
        raise Refused(f"{file}: the definitions {' and '.join(sorted(definitions))} in one run")
    return design


def write_blocks(source: BlockSource, state: str, staged: Path) -> None:
    """Write the public geography of a state's blocks and their declared living quarters."""
    blocks = source.state(state)
    geography = {name: getattr(blocks.geography, name) for name in GEOGRAPHY}
    columns = {name: pa.array(array) for name, array in geography.items() if array is not None}
    columns |= {name: pa.array(blocks.quarters[:, at].astype(np.int32)) for at, name in enumerate(QUARTERS)}
    write_table(staged, f"{MEASUREMENTS}/{BLOCKS_FOLDER}/{state}.parquet", pa.table(columns))


def write_geounits(source: BlockSource, branch: Branch, staged: Path) -> None:
    """Write the blocks of a spine that was read."""
    order, codes = source.spine(branch).order, source.codes(branch)[-1]
    table = pa.table({"block": pa.array(order.astype(np.int32)), "geocode": text(codes)})
    write_table(staged, f"{MEASUREMENTS}/{GEOUNITS_FOLDER}/{branch}.parquet", table)


def read_blocks(folder: Path, state: str) -> tuple[Geography, IntArray]:
    """Return the geography of a state's blocks and their (blocks, 8) living quarters; folder: the measurements'.

    Raises Refused, or one of UNREADABLE.
    """
    path = path_in(folder, f"{BLOCKS_FOLDER}/{state}.parquet")
    table = pq.read_table(path)
    columns = [name for name in (*GEOGRAPHY, *QUARTERS) if name in table.column_names or name in QUARTERS]
    if any(table[name].null_count or pa.types.is_floating(table.schema.field(name).type) for name in columns):
        raise Refused(f"{path}: a column is not of whole numbers, or one is missing")
    geography = Geography(**{name: table[name].to_numpy() for name in columns if name in GEOGRAPHY})
    quarters = np.column_stack([table[name].to_numpy() for name in QUARTERS]).astype(np.int64)
    if (quarters < 0).any() or not quarters.sum(axis=1).all():
        raise Refused(f"{path}: a block has no living quarters, or a negative number of them")
    if (np.diff(geography.geocode) <= 0).any() or set(geography.state.tolist()) != {int(state)}:
        raise Refused(f"{path}: the blocks are not those of state {state}, each once and sorted")
    try:
        return checked(geography), quarters
    except BadGeography as error:
        raise Refused(f"{path}: {error}") from None
