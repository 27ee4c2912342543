"""Find published noisy measurements, and read the footers of their files: an inventory without any data; their faults.

US_Person_PL_PROD/County.parquet/DPQuery/State=044/part-*.parquet     of the US level in DPQuery itself
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from privacy.accounting.states import STATES_PR, STATES_US
from spine.settings import Jurisdiction
from tasks.errors import Refused
from tasks.records.files import is_passed_over, locate_file, why
from tasks.records.findings import Finding
from tasks.top_down.release.nmf_layout import (
    FOOTER,
    LEVELS,
    ORDER,
    PRODUCT_WORDS,
    ROW_KINDS,
    Footer,
    RowKind,
    read_footer,
)
from tasks.top_down.run_plan import PRODUCTS, SCHEMAS, US

NEEDED: dict[RowKind, tuple[str, ...]] = {
    "DPQuery": ("geocode", "query_name", "query_shape", "value", "variance"),
    "Constraint": ("geocode", "query_name", "value"),
}
_TEXT = ("text", r"(dictionary<values=)?(large_)?(string|binary)\b.*")  # Spark can write text as bytes
_NUMBER = ("a number", r"u?int\d+|double|float|halffloat|decimal.*")
_LISTS = ("lists of whole numbers", r"(large_|fixed_size_)?list<[^:]+: u?int\d+( not null)?>(\[\d+\])?")
TYPES = {  # what a column holds, and pyarrow's names of such types
    **dict.fromkeys(("geocode", "query_name"), _TEXT),
    **dict.fromkeys(("variance", "plb"), _NUMBER),
    **dict.fromkeys(("query_shape", "value"), _LISTS),
}
KNOWN = {"geocode", "query_name", "sign", "query_shape", "value", "variance", "plb", "State"}
AXES = {product: {axis.name for axis in schema.axes} for product, schema in SCHEMAS.items()}
DHC = "these are measurements of the DHC, which das-flows does not read: give those of the redistricting product (PL)"
_PRODUCT = {word: product for product, word in PRODUCT_WORDS.items()}
_DATA_SET = re.compile(r"(US|PR)_(Person|Unit)_PL_PROD")
_OTHER = re.compile(r"(US|PR)_\w+_PROD")
_STATE = re.compile(r"State=([0-9]{1,3})")


class Faults:
    """Collect the faults of a piece of work."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, bool], tuple[int, str | None]] = {}

    def add(
        self, file: str, rule: str, geocodes: Iterable[bytes | str] | None = None, *, warning: bool = False
    ) -> None:
        """Add a fault of a file, or of the rows with these geocodes; do nothing without geocodes."""
        named = None if geocodes is None else [_text(geocode) for geocode in geocodes]
        if named == []:
            return
        rows, first = self._found.get((file, rule, warning), (0, None))
        firsts = [code for code in (first, *(named or ())) if code is not None]
        self._found[file, rule, warning] = rows + (1 if named is None else len(named)), min(firsts, default=None)

    def note(self, file: str, rule: str) -> None:
        """Add a note, which is not an error."""
        self.add(file, rule, warning=True)

    def findings(self) -> list[Finding]:
        """Return one finding per file and rule, which names the smallest geocode at fault."""
        return [
            Finding(file, rule if first is None else f"{rule}: geocode {first or US}", "", rows, warning=warning)
            for (file, rule, warning), (rows, first) in self._found.items()
        ]


def _text(geocode: bytes | str) -> str:
    text = geocode.decode("utf-8", "replace") if isinstance(geocode, bytes) else geocode
    return text[:40] if text.isprintable() else ascii(text[:40])  # a message is one line


@dataclass(frozen=True)
class PartFile:
    """A part file. state: flag and FIPS code, three digits; "" for the US.

    From its footer: columns: their types by name. footer, order: texts that das-flows wrote, if any.
    """

    path: Path
    name: str
    jurisdiction: Jurisdiction
    product: str
    level: str
    kind: RowKind
    state: str
    rows: int = 0
    columns: dict[str, str] = field(default_factory=dict)
    footer: str = ""
    order: str = ""


@dataclass(frozen=True)
class Inventory:
    """The part files of the data sets, sorted by name."""

    parts: tuple[PartFile, ...]

    def of(self, product: str, level: str, kind: RowKind, state: str) -> list[PartFile]:
        """Return the parts of a level of a state (two digits), AIAN part included, or of the US."""
        return [
            part
            for part in self.parts
            if (part.product, part.level, part.kind, part.state[1:] or US) == (product, level, kind, state)
        ]

    def only(self, jurisdiction: Jurisdiction) -> Inventory:
        """Return the parts of a jurisdiction."""
        return Inventory(tuple(part for part in self.parts if part.jurisdiction == jurisdiction))

    def of_states(self, states: Collection[str]) -> Inventory:
        """Return the parts of these states (two digits), and of the US."""
        return Inventory(tuple(part for part in self.parts if not part.state or part.state[1:] in states))

    @property
    def jurisdictions(self) -> tuple[Jurisdiction, ...]:
        """The jurisdictions of the parts."""
        both: tuple[Jurisdiction, ...] = ("us", "pr")
        return tuple(name for name in both if any(part.jurisdiction == name and part.state for part in self.parts))

    @property
    def written_by(self) -> Footer | None:
        """The das-flows run that wrote the files (checked by `take_inventory`); None for the Bureau's."""
        written = {part.footer for part in self.parts}
        return read_footer(written.pop()) if len(written) == 1 and written != {""} else None

    @property
    def products(self) -> tuple[str, ...]:
        """The products of the parts."""
        return tuple(name for name in PRODUCTS if any(part.product == name for part in self.parts))

    @property
    def states(self) -> tuple[str, ...]:
        """The states of the parts, two digits."""
        return tuple(sorted({part.state[1:] for part in self.parts if part.state}))


def is_published_files(folder: Path) -> bool:
    """Return whether a folder has the Bureau's noisy measurement files, of any product."""
    return any(_OTHER.fullmatch(path.name) for path in _candidates(folder))


def take_inventory(folder: Path, states: tuple[int, ...] = ()) -> tuple[Inventory, Faults]:
    """Return all part files of a folder, and faults or notes about them.

    states: only their files and those of the US level; empty for all.
    """
    faults, root = Faults(), folder.resolve()
    parts: list[PartFile] = []
    for data_set in _data_sets(folder, faults):
        base = root.parent if root == data_set else root  # names begin with the data set, or above it
        found = [_read_footer(part, faults) for part in _part_files(data_set, base, states, faults)]
        parts += [part for part in found if part is not None]
    inventory = Inventory(tuple(sorted(parts, key=lambda part: part.name)))
    _check_levels(inventory, states, faults)
    return inventory, faults


def _candidates(folder: Path) -> Iterator[Path]:
    """Yield the folder itself and those up to three levels below it: OUT/us/nmf/US_Person_PL_PROD."""
    if not os.path.isdir(folder):  # False also for an invalid path
        return
    folders = [folder.resolve()]
    for _ in range(4):
        yield from folders
        folders = [path for above in folders if not _OTHER.fullmatch(above.name) for path in _folders(above)]


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir() and not is_passed_over(path.name))
    except OSError:
        return []


def _data_sets(folder: Path, faults: Faults) -> list[Path]:
    """Return the folders of one product and jurisdiction. A download by state has several folders of one name."""
    found = [path for path in _candidates(folder) if _OTHER.fullmatch(path.name)]
    data_sets = [path for path in found if _DATA_SET.fullmatch(path.name)]
    for path in found:
        if path not in data_sets:
            rule = DHC if "DHC" in path.name else "is not a data set of the redistricting product"
            faults.add(path.name, rule, warning=bool(data_sets))
    return data_sets


def _part_files(data_set: Path, base: Path, states: tuple[int, ...], faults: Faults) -> Iterator[PartFile]:
    """Yield the parts of a data set without reading their footers. A missing level above an existing one is a fault."""
    region, word, *_ = data_set.name.split("_")
    jurisdiction: Jurisdiction = "us" if region == US else "pr"
    for level in (*([US] if jurisdiction == "us" else []), *LEVELS):
        for kind in ROW_KINDS:
            place = data_set / f"{level}.parquet" / kind
            if place.is_dir():
                folders = [("", place)] if level == US else _state_folders(place, jurisdiction, base, states, faults)
                for state, folder in folders:
                    for file in _files(folder, base, faults):
                        yield PartFile(
                            file, str(file.relative_to(base)), jurisdiction, _PRODUCT[word], level, kind, state
                        )
            elif level != US or place.parent.is_dir():  # a single state has no US level
                faults.add(str(place.relative_to(base)), "the folder is missing")


def _state_folders(
    place: Path, jurisdiction: Jurisdiction, base: Path, states: tuple[int, ...], faults: Faults
) -> list[tuple[str, Path]]:
    found, known = [], STATES_PR if jurisdiction == "pr" else STATES_US
    for path in _folders(place):
        match = _STATE.fullmatch(path.name)
        state = match[1].zfill(3) if match else ""
        if state[:1] not in ("0", "1") or state[1:] not in known:
            faults.add(str(path.relative_to(base)), "is not a folder State=025 (or 125) of a state of its data set")
        elif not states or int(state[1:]) in states:
            found.append((state, path))
    return found


def _files(folder: Path, base: Path, faults: Faults) -> list[Path]:
    try:
        files = sorted(folder.iterdir())
    except OSError as error:
        faults.add(str(folder.relative_to(base)), f"cannot be read: {why(error)}")
        return []
    return [file for file in files if not is_passed_over(file.name) and file.suffix != ".crc"]


def _read_footer(part: PartFile, faults: Faults) -> PartFile | None:
    """Return a part with its file's footer; None if it is not Parquet."""
    try:
        locate_file(str(part.path))  # refuses a pipe, which would block
        metadata = pq.read_metadata(part.path)
        columns = {each.name: str(each.type) for each in metadata.schema.to_arrow_schema()}
    except OSError as error:
        faults.add(part.name, f"cannot be read: {why(error)}")
        return None
    except (pa.ArrowException, Refused):
        faults.add(part.name, "cannot be read as a Parquet file")
        return None
    if missing := [column for column in NEEDED[part.kind] if column not in columns]:
        faults.add(part.name, f"has no column {', '.join(missing)}")
    for column in sorted({*NEEDED[part.kind], "plb"} & set(columns)):
        what, pattern = TYPES[column]
        if not re.fullmatch(pattern, held := columns[column]):
            faults.add(part.name, f"the column {column} holds {held[:60]}, not {what}")
    if {"relgq", "age", "sex"} & set(columns):
        faults.add(part.name, DHC)
    elif more := sorted(set(columns) - KNOWN - AXES[part.product]):
        faults.note("", f"columns that are not read: {', '.join(more)}")
    written = metadata.metadata or {}
    footer, order = (written.get(key.encode(), b"").decode("utf-8", "replace") for key in (FOOTER, ORDER))
    return replace(part, rows=metadata.num_rows, columns=columns, footer=footer, order=order)


def _check_levels(inventory: Inventory, states: tuple[int, ...], faults: Faults) -> None:
    """Report states without the Constraint rows of a level, which name all its geounits."""
    there = {
        (part.jurisdiction, part.product, part.state, part.level)
        for part in inventory.parts
        if part.kind == "Constraint"
    }
    for jurisdiction, product, state in sorted({(j, p, s) for j, p, s, _ in there if s}):
        for level in LEVELS:
            if (jurisdiction, product, state, level) not in there:
                faults.add(f"{product}, State={state}", f"no Constraint rows of the level {level}")
    for jurisdiction in inventory.jurisdictions:
        own = inventory.only(jurisdiction)
        _check_origin(own, jurisdiction.upper(), faults)
        for product in PRODUCTS:
            if product not in own.products:
                faults.note(jurisdiction.upper(), f"{product} are missing and left out")
        if jurisdiction == "us" and not states and (missing := sorted(set(STATES_US) - set(own.states))):
            shown = f"{', '.join(missing[:8])}{' ...' if len(missing) > 8 else ''}"
            faults.note("US", f"{len(missing)} states are missing: {shown}")


def _check_origin(own: Inventory, name: str, faults: Faults) -> None:
    """Report files of different origins; note those that das-flows wrote."""
    first = own.parts[0]
    if other := [part.name for part in own.parts if part.footer != first.footer]:
        faults.add(other[0], f"has a footer of another run, mark or totals than {first.name}, or lacks one")
        return
    try:
        if footer := own.written_by:
            marked = f", of {footer.mark.lower()} data" if footer.mark else ""
            faults.note(name, f"measurements by das-flows, run {footer.run}{marked}: not the Census Bureau's")
    except ValueError as error:
        faults.add(first.name, f"has {error}")


def described(inventory: Inventory) -> list[dict[str, object]]:
    """Return a row per data set, level and kind: number of states, files, rows, and the distinct schemas."""
    groups: dict[tuple[str, ...], list[PartFile]] = {}
    for part in inventory.parts:
        groups.setdefault((part.jurisdiction, part.product, part.level, part.kind), []).append(part)
    return [
        dict(zip(("jurisdiction", "product", "level", "rows of"), key, strict=True))
        | {
            "states": sorted({part.state for part in own if part.state}),
            "files": len(own),
            "rows": sum(part.rows for part in own),
            "schemas": sorted({"; ".join(f"{name}: {kind}" for name, kind in part.columns.items()) for part in own}),
        }
        for key, own in groups.items()
    ]
