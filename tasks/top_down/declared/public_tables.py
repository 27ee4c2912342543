"""The public files of a declaration: the declaration itself, its table of leaves and its declared totals.

All paths are relative to the declaration. Every fault is a finding whose column is the key of the declaration.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from privacy.accounting.composition import Spend
from spine.declaration.declaration import Declaration, read_declaration
from spine.declaration.figures import Figures, read_bounds, whole_numbers
from spine.declaration.fixed import fixed_groups
from spine.declaration.form import Fault, Form, is_writable
from spine.declaration.hierarchy import Hierarchy, leaf_key, make_hierarchy
from spine.declaration.released import Counts, ReleasedSums, released_bounds, released_faults, sum_released
from spine.declaration.texts import RowIndex, Texts
from spine.dhc_households import OTHER_UNITS
from spine.geography import IntArray, Integers, narrowed
from spine.gls.grid import hindrance
from spine.hierarchy import Spine
from spine.noise import distinct_shares
from spine.settings import Jurisdiction
from spine.top_down import Plan
from spine.top_down.bounds import Bounds
from spine.top_down.queries import query_group
from spine.wide.plan import WidePlan
from tasks.errors import Refused
from tasks.lifecycle.files import load_object, save_object, stamp
from tasks.lifecycle.process import use_kernels
from tasks.lifecycle.run_directory import RunDirectory, state_home
from tasks.memory import return_memory
from tasks.records.declarations import (
    SHIPPED,
    beside,
    check_has_tables,
    find_declaration,
    read_coded,
    read_columns,
    read_raw,
)
from tasks.records.files import digest_file, exists, file_name, unchanged
from tasks.records.findings import Finding
from tasks.releases.manifest import MANIFEST, release_digest
from tasks.top_down.choices import Estimator
from tasks.top_down.declared.dhc_fields import contradicting_blocks, is_households, other_units, unwritable_blocks
from tasks.top_down.declared.equal import read_equal
from tasks.top_down.published.release_source import JOIN
from tasks.top_down.run_plan import undrawable
from tasks.top_down.source import PLANNED
from tasks.top_down.spend import declared_spend

TOTAL_COLUMN = "total"  # in a file of declared totals
LONGEST_GROUPS = 150  # characters of the names in the sentence of a neighbour relation
AT_ONCE = 1 << 26  # answers that are held
ASSEMBLED = "prepared/declared"  # what a run's processes keep of a declaration besides its design


@dataclass(frozen=True, eq=False)
class PublicTables:
    """What the public files hold, as a run keeps it.

    text: the declaration as JSON. leaves: the columns that it names of its table of leaves. totals: each declared
        total's value by group, whose codes are joined. digests: those of the tables and releases, by their names in the
        declaration. equal: the release's counts for each equality.
    """

    text: str
    leaves: dict[str, Texts]
    totals: tuple[dict[str, int], ...]
    digests: dict[str, str]
    equal: tuple[Counts, ...] = ()

    def digest(self) -> str:
        """Return the digest of all that shapes the noise besides the records: it is part of the noise's key."""
        text, _ = self.parted()
        return sha256(json.dumps([text, self.digests], sort_keys=True).encode()).hexdigest()

    def parted(self) -> tuple[str, str]:
        """Return the declaration without `publish`, on which no noise depends, and `publish` or ""."""
        raw = json.loads(self.text)
        publish = raw.pop("publish", None)
        return (self.text, "") if publish is None else (json.dumps(raw), json.dumps(publish))

    def same(self, other: PublicTables) -> bool:
        """Return whether both hold the same."""
        texts, arrays = (self.text, self.totals, self.digests), [each for own in self.equal for each in own]
        others = [each for own in other.equal for each in own]
        return (
            texts == (other.text, other.totals, other.digests)
            and self.leaves.keys() == other.leaves.keys()
            and all(own.same(other.leaves[name]) for name, own in self.leaves.items())
            and len(arrays) == len(others)
            and all(map(np.array_equal, arrays, others))
        )

    def published(self) -> PublicTables:
        """Return the public files' names, without folders, for a release."""
        raw = json.loads(self.text)
        names = published_names(raw)
        digests = {names[file]: digest for file, digest in self.digests.items()}
        return replace(self, text=json.dumps(without_folders(raw)), digests=digests)


@dataclass(frozen=True, eq=False)
class DeclaredDesign:
    """The design of a run of a declaration: what its public files hold, and by what histograms are estimated."""

    public: PublicTables
    estimator: Estimator = "topdown"

    def digest(self) -> str:
        """Return the digest of all that shapes a release besides the records: one noise has a release an estimator."""
        return self._digest

    @cached_property
    def _digest(self) -> str:  # each access to a run's declaration asks for it
        own, by, (_, publish) = self.public.digest(), self.estimator, self.public.parted()
        own = sha256(f"{own}\npublish {publish}\n".encode()).hexdigest() if publish else own
        return own if by == "topdown" else sha256(f"{own}\nestimator {by}\n".encode()).hexdigest()

    def with_nation(self, _states: tuple[str, ...]) -> bool:
        """Return that the hierarchy is all that is measured."""
        return False


@dataclass(frozen=True, eq=False)
class Declared:
    """A declaration with its tables, all without faults.

    figures: as declared, in spine order. names: those of the geounits, for levels with names. released: for a wide
        declaration, its geounits' counts in the release, and no `figures`. copied: columns of the leaves that microdata
        repeat, in spine order.
    """

    declaration: Declaration
    hierarchy: Hierarchy
    figures: Figures
    bounds: Bounds
    names: Mapping[str, Texts] = field(default_factory=dict)
    released: ReleasedSums | None = None
    copied: Mapping[str, Integers] = field(default_factory=dict)

    @property
    def is_wide(self) -> bool:
        """Return whether it is estimated by `spine.wide`, from few answers."""
        return self.declaration.form.is_wide

    @property
    def hindrance(self) -> str:
        """Return the reason why least squares over the tree is impossible; empty if it is possible."""
        return "it reads few answers" if self.is_wide else hindrance(self.plan)

    @cached_property
    def wide_plan(self) -> WidePlan:
        """Return the plan of estimating a wide declaration."""
        return WidePlan(self.declaration, self.hierarchy.spine)

    def prepare_wide(self) -> None:
        """Make all that the estimation of a wide declaration makes of it. Raises ValueError."""
        plan = self.wide_plan
        _ = self.plan, plan.passes, plan.kinds, plan.declared

    @cached_property
    def plan(self) -> Plan:
        """Return the plan of the estimation."""
        declaration = self.declaration
        rows = max(1, min(Plan.rows, AT_ONCE // max(self.widths.values())))
        spine, allocation, passes = self.hierarchy.spine, declaration.allocation, declaration.passes
        return Plan(declaration.product, spine, allocation, self.bounds, passes, rows=rows)

    @cached_property
    def fixed_groups(self) -> list[str]:
        """Return what a record agrees in with any that could replace it, by numbers of records that are fixed."""
        return fixed_groups(self.hierarchy, self.figures)

    @cached_property
    def spend(self) -> Spend:
        """Return what a run spends, and for whom."""
        return declared_spend(self.declaration, self.fixed_groups)

    @cached_property
    def widths(self) -> dict[str, int]:
        """Return the answers that are asked of a geounit of each level."""
        product = self.declaration.product
        return {
            level.name: sum(product.width(query) for query in self.declaration.queries(level.name))
            for level in self.declaration.levels
        }


def published_names(raw: Mapping[str, Any]) -> dict[str, str]:
    """Return the name of each file and release of a declaration in a release: a second `declared` is `declared-2`."""
    names = {part["file"]: file_name(part["file"]) for part in (raw["leaves"], *raw.get("totals", ()))}
    for release in dict.fromkeys(part["release"] for part in raw.get("equal", ())):
        name, number = file_name(release), 1
        while (shown := name if number == 1 else f"{name}-{number}") in names.values():
            number += 1
        names[release] = shown
    return names


def without_folders(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a declaration that names its files, and the releases that it is equal to, as a release does."""
    found, names = copy.deepcopy(dict(raw)), published_names(raw)
    for part in (found["leaves"], *found.get("totals", ())):
        part["file"] = names[part["file"]]
    for part in found.get("equal", ()):
        part["release"] = names[part["release"]]
    return found


class Faulty(Refused):
    """A declaration does not pass. args: all findings, each with its key."""

    args: tuple[Finding, ...]

    def __str__(self) -> str:
        named = (f"{found.file} {found.column}".strip() + f": {found.rule}" for found in self.args)
        return "the declaration does not pass: " + "; ".join(named)


def faulty(path: str, faults: Iterable[Fault]) -> Faulty:
    """Return the faults in a declaration's file as findings to raise."""
    return Faulty(*(Finding(file_name(path), fault.text, fault.key) for fault in faults))


def read_public(path: str) -> PublicTables:
    """Return what a declaration's public files hold. Raises Faulty; Refused where its file cannot be read at all."""
    raw, declaration = _read_form(path)
    form = declaration.form
    named = dict.fromkeys([form.leaves.file, *(total.file for total in form.totals)])
    if len({file_name(file) for file in named}) < len(named):
        raise faulty(path, [Fault("totals", "two files have one name, which a release shows: rename one")])
    with unchanged(beside(path, file) for file in named):  # they are read before they are digested
        return _read_tables(path, raw, declaration, named)


def read_without_releases(path: str) -> Declaration:
    """Return a declaration whose files are read as by `read_public`, except the releases. Raises Faulty, Refused."""
    _, declaration = _read_form(path)
    leaves, _ = _read_files(path, declaration)
    hierarchy, faults = make_hierarchy(declaration, leaves)
    if hierarchy is None:
        raise faulty(path, faults)
    return declaration


def _read_form(path: str) -> tuple[dict[str, Any], Declaration]:
    """Return what a declaration's file says, and the declaration. Raises Faulty, Refused."""
    raw = read_raw(path)
    declaration, faults = read_declaration(raw)
    if declaration is None:
        raise faulty(path, faults)
    if outside := [*_outside(path, declaration.form)]:
        raise faulty(path, outside)
    if Path(path).parent == SHIPPED:
        check_has_tables(Path(path).stem, there=(SHIPPED / declaration.form.leaves.file).exists())
    return raw, declaration


def _outside(path: str, form: Form) -> Iterator[Fault]:
    """Find files and releases that are not in the folder of the declaration."""
    named = [("leaves.file", form.leaves.file)]
    named += [(f"totals.{at}.file", each.file) for at, each in enumerate(form.totals)]
    named += [(f"equal.{at}.release", each.release) for at, each in enumerate(form.equal)]
    for key, name in named:
        try:
            beside(path, name)
        except Refused as error:
            yield Fault(key, str(error))


def _read_files(path: str, declaration: Declaration) -> tuple[dict[str, Texts], list[dict[str, int]]]:
    """Return the columns of the table of leaves, except those of a release, and the declared totals. Raises Faulty."""
    form = declaration.form
    names = dict.fromkeys([*form.leaves.key, *leaf_columns(declaration)])
    own = [name for name in names if name not in _columns_of_release(declaration)]
    leaves, findings = read_coded(beside(path, form.leaves.file), own, form.delimiter)
    totals, faults = [], list[Fault]()
    for at, total in enumerate(form.totals):
        columns = group_columns(declaration, total.of)
        table, wrong = read_columns(beside(path, total.file), [*columns, TOTAL_COLUMN], form.delimiter)
        findings += wrong
        if table is not None:
            totals.append(_by_group(table, f"totals.{at}.file", faults))
    if findings or leaves is None:
        raise Faulty(*findings)
    if faults:
        raise faulty(path, faults)
    return leaves, totals


def _columns_of_release(declaration: Declaration) -> tuple[str, ...]:
    """Return the copied columns of leaves that a release has, not their table."""
    return OTHER_UNITS if is_households(declaration) else ()


def _read_tables(path: str, raw: Mapping[str, Any], declaration: Declaration, named: Iterable[str]) -> PublicTables:
    form, faults = declaration.form, list[Fault]()
    leaves, totals = _read_files(path, declaration)
    equal, digests = [], {}
    for at, each in enumerate(form.equal):
        try:
            counts, digests[each.release] = read_equal(declaration, at, beside(path, each.release), leaves)
            equal.append(counts)
        except Refused as error:
            faults.append(Fault(f"equal.{at}.release", str(error)))
    if faults:
        raise faulty(path, faults)
    if columns := _columns_of_release(declaration):
        jurisdiction: Jurisdiction = "us" if declaration.levels[0].name == "US" else "pr"
        release = form.equal[0].release
        found, digest = other_units(beside(path, release), jurisdiction, leaves)
        if digest != digests[release]:
            raise faulty(path, [Fault("equal.0.release", f"{release} was changed while it was read")])
        leaves |= {column: Texts.of_numbers(found[column]) for column in columns}
    digests |= {file: digest_file(beside(path, file)) for file in named}
    return PublicTables(json.dumps(raw), leaves, tuple(totals), digests, tuple(equal))


def leaf_columns(declaration: Declaration) -> Iterator[str]:
    """Yield the columns of the table of leaves that a declaration names, besides the key."""
    for level in declaration.levels:
        yield from level.columns
        yield from level.made.apart if level.made else ()
        yield from [level.names] if level.names else ()
    yield from (column for count in declaration.form.counts for column in count.columns if column)
    yield from declaration.form.copied


def group_columns(declaration: Declaration, of: Sequence[str]) -> list[str]:
    """Return the columns that name the groups of a declared total: those of its level and of all levels above."""
    names = [level.name for level in declaration.levels]
    if len(of) == 1 and of[0] in names:
        return [column for level in declaration.levels[: names.index(of[0]) + 1] for column in level.columns]
    return list(of)


def _by_group(table: Mapping[str, Sequence[str]], key: str, faults: list[Fault]) -> dict[str, int]:
    """Return declared totals by group; add what is wrong with them to the faults."""
    values, wrong = whole_numbers(table[TOTAL_COLUMN])
    groups = [JOIN.join(codes) for codes in zip(*(table[name] for name in table if name != TOTAL_COLUMN), strict=True)]
    groups = groups or [""] * len(values)  # the only geounit at the top
    faults += [Fault(key, f"{table[TOTAL_COLUMN][at]!r} is not a whole number") for at in wrong[:1]]
    twice = [group for group, number in Counter(groups).items() if number > 1]
    faults += [Fault(key, f"{group.replace(JOIN, '/')} is there twice") for group in twice[:1]]
    return dict(zip(groups, values.tolist(), strict=True))


def _lacking(public: PublicTables, declaration: Declaration) -> Iterator[Fault]:
    """Find tables and columns that a declaration names, and that its public tables, which may be received, lack."""
    form = declaration.form
    named = dict.fromkeys([*form.leaves.key, *leaf_columns(declaration)])
    if missing := [name for name in named if name not in public.leaves]:
        yield Fault("leaves.file", f"it has no column {missing[0]!r:.50}")
    for key, declared, there in (("totals", form.totals, public.totals), ("equal", form.equal, public.equal)):
        if len(declared) != len(there):
            yield Fault(key, f"the declaration has {len(declared)} of them, and its tables {len(there)}")


_LAST: list[tuple[PublicTables, Declared]] = []  # the flow reads a declaration several times before its run begins


def assemble(public: PublicTables, path: str = "") -> Declared:
    """Return a declaration with its hierarchy and bounds: the last one again, if its tables are the same.

    Nobody may change it. path: for findings. Raises Faulty.
    """
    return _assembled(public, path)[1]


def _assembled(public: PublicTables, path: str) -> tuple[PublicTables, Declared]:
    last, *_ = *_LAST, None  # another thread may clear it
    if last is None or not last[0].same(public):
        _LAST.clear()
        last = public, _assemble(public, path)
        _LAST[:] = [last]
    return last


class Assembled(NamedTuple):
    """What is made of the tables of a declaration, as its run's processes map it into memory."""

    spine: Spine
    by_key: RowIndex
    figures: Figures
    bounds: Bounds
    names: dict[str, Texts]
    released: ReleasedSums | None
    copied: dict[str, Integers]


def keep_design(run: RunDirectory, design: DeclaredDesign) -> None:
    """Write the design of a run and what is made of its tables; every process maps both, and reads what it needs."""
    own = assemble(design.public)
    hierarchy, released = own.hierarchy, own.released
    kept = hierarchy.spine, hierarchy.by_key, own.figures, own.bounds, dict(own.names), released, dict(own.copied)
    save_object(run / ASSEMBLED, Assembled(*kept))
    save_object(run / PLANNED, design)
    del own, hierarchy, released, kept
    _LAST.clear()
    return_memory()  # of assembling: the flow's process lives as long as the run


def _assemble(public: PublicTables, path: str) -> Declared:
    """Return a declaration with its hierarchy and bounds. Raises Faulty."""
    use_kernels(state_home())  # in a run those that `_declared` has chosen
    declaration, faults = read_declaration(json.loads(public.text))
    if declaration is None:
        raise faulty(path, faults)
    if faults := [*_lacking(public, declaration)]:
        raise faulty(path, faults)
    hierarchy, faults = make_hierarchy(declaration, public.leaves)
    if hierarchy is None:
        raise faulty(path, faults)
    names = _names(declaration, hierarchy, faults)

    def whole(column: str, key: str) -> Integers:
        if not column:
            return np.zeros(hierarchy.spine.blocks, np.uint8)
        numbers, wrong = whole_numbers(public.leaves[column])
        if wrong:
            leaf = leaf_key(declaration.form, public.leaves, wrong[0])
            text = f"{column} is {public.leaves[column][wrong[0]]!r} in the leaf {leaf}: no whole number"
            faults.append(Fault(key, text))
        return narrowed(numbers)[hierarchy.spine.order]

    form = declaration.form
    if form.copied and not is_households(declaration):
        raise faulty(path, [Fault("copied", "only the DHC's households copy columns, as das tda declare names them")])
    counts = [
        np.column_stack([whole(column, f"counts.{at}.columns") for column in count.columns])
        for at, count in enumerate(form.counts)
    ]
    copied = {column: whole(column, "copied") for column in form.copied}
    totals = [_grouped(declaration, hierarchy, at, total, faults) for at, total in enumerate(public.totals)]
    if faults:
        raise faulty(path, faults)
    if wrong_block := next(unwritable_blocks(hierarchy), None):
        text = f"{wrong_block} is not a block: 2 digits of the state, 3 of the county, 6 of the tract, 4 of the block"
        raise faulty(path, [Fault("leaves.key", text)])
    if declaration.form.is_wide:
        return _wide(hierarchy, counts, public.equal[0], names, copied, path)
    equal = []
    for at, (each, found) in enumerate(zip(declaration.form.equal, public.equal, strict=True)):
        width = query_group(declaration.product, each.partition).width
        own = np.zeros((hierarchy.spine.blocks, width), np.int64)
        _check_counts(found, own.shape, f"equal.{at}.release", path)
        own[found.row, found.part] = found.number
        equal.append(own[hierarchy.spine.order])
    figures = Figures(tuple(each.astype(np.int64) for each in counts), tuple(totals), tuple(equal))
    bounds, faults = read_bounds(hierarchy, figures)
    faults += _undrawable(hierarchy)
    if bounds is None or faults:
        raise faulty(path, faults)
    declared = Declared(declaration, hierarchy, figures, bounds, names, copied=copied)
    if sum(len(name) + 9 for name in declared.fixed_groups) > LONGEST_GROUPS:
        key = "totals" if public.totals else "counts"
        raise faulty(path, [Fault(key, "the names of its groups are too long for one sentence: shorten them")])
    try:
        _ = declared.plan
    except ValueError as error:
        raise faulty(path, [Fault("", str(error))]) from None
    return declared


def _undrawable(hierarchy: Hierarchy) -> Iterator[Fault]:
    """Yield the noise that the sampler cannot draw."""
    for level, query, why in undrawable(hierarchy.declaration.allocation, distinct_shares(hierarchy.spine)):
        yield Fault(f"queries.{query}", f"its noise in {level} cannot be drawn: {why}")


def _check_counts(counts: Counts, shape: tuple[int, int], key: str, path: str) -> None:
    """Refuse counts of no leaf or part: they may be received."""
    if len(counts.row) and not (counts.row.max() < shape[0] and counts.part.max() < shape[1]):
        raise faulty(path, [Fault(key, "a count is of no leaf or part")])


def _wide(
    hierarchy: Hierarchy,
    counts: Sequence[Integers],
    equal: Counts,
    names: Mapping[str, Texts],
    copied: Mapping[str, Integers],
    path: str,
) -> Declared:
    """Return a wide declaration with its hierarchy; the release's counts stay sparse. Raises Faulty."""
    declaration, leaves = hierarchy.declaration, hierarchy.spine.blocks
    width = declaration.product.width(declaration.form.equal[0].partition)
    _check_counts(equal, (leaves, width), "equal.0.release", path)
    released = sum_released(hierarchy, counts[0] if counts else np.zeros((leaves, 1), np.uint8), equal)
    faults = [*released_faults(hierarchy, released), *_undrawable(hierarchy)]
    if len(wrong := contradicting_blocks(declaration, copied, released)):
        units = "has other units, or more without payment of rent, than the release allows"
        faults.append(Fault("copied", f"{hierarchy.key(wrong[0])} {units}"))
    if faults:
        raise faulty(path, faults)
    bounds = released_bounds(hierarchy.spine, released)
    declared = Declared(declaration, hierarchy, Figures(()), bounds, names, released, copied)
    try:
        declared.prepare_wide()
    except ValueError as error:
        raise faulty(path, [Fault("", str(error))]) from None
    return declared


def _names(declaration: Declaration, hierarchy: Hierarchy, faults: list[Fault]) -> dict[str, Texts]:
    """Return the geounits' names on each level with names; all leaves of a geounit must have the same."""
    found, spine = dict[str, Texts](), hierarchy.spine
    for at, level in enumerate(declaration.levels):
        if level.names is None:
            continue
        key = f"levels.{at}.names"
        if not level.columns:
            faults.append(Fault(key, "a level without columns has one unit, which the level names"))
        of_leaf = hierarchy.column(level.names)
        names = of_leaf.at(spine.starts[at])
        others = np.flatnonzero(of_leaf.number != np.repeat(names.number, spine.ends(at) - spine.starts[at]))
        if len(others):
            own = names[int(spine.geounit_of_block(at)[others[0]])]
            faults.append(Fault(key, f"a unit has the names {own!r:.50} and {of_leaf[int(others[0])]!r:.50}"))
        unwritable = np.array([not is_writable(name) for name in names.distinct.tolist()], bool)[names.number]
        if unwritable.any():
            text = "is empty, has | or \" or a line's end, or is a formula: write it otherwise"
            faults.append(Fault(key, f"the name {names[int(unwritable.argmax())]!r:.50} {text}"))
        found[level.name] = names
    return found


def _grouped(
    declaration: Declaration, hierarchy: Hierarchy, at: int, total: Mapping[str, int], faults: list[Fault]
) -> tuple[IntArray, tuple[str, ...], IntArray]:
    """Return the group of each leaf, the groups' names, and their declared totals."""
    key, columns = f"totals.{at}.file", group_columns(declaration, declaration.form.totals[at].of)
    texts = [hierarchy.column(name).texts().tolist() for name in columns]
    of_leaf = [JOIN.join(codes) for codes in zip(*texts, strict=True)]
    names, group = np.unique(np.array(of_leaf or [""] * hierarchy.spine.blocks, np.str_), return_inverse=True)
    if missing := [name for name in names.tolist() if name not in total]:
        faults.append(Fault(key, f"it has no total of {missing[0].replace(JOIN, '/') or 'the whole'}"))
    known = set(names.tolist())
    if unknown := [name for name, value in total.items() if value and name not in known]:
        faults.append(Fault(key, f"{unknown[0].replace(JOIN, '/')} has a total and no leaf"))
    shown = tuple(name.replace(JOIN, "/") or "the whole" for name in names.tolist())
    return group, shown, np.array([total.get(name, 0) for name in names.tolist()], np.int64)


def read_declared(name: str, run: RunDirectory | None = None) -> tuple[PublicTables, Declared]:
    """Return a declaration with its tables. Raises Faulty; Refused where its file cannot be read at all.

    run: a run that continues with its own copy if some of the files are gone and the others are unchanged.
    """
    path = find_declaration(name)
    if run is not None and (kept := _kept(run, path)):
        return kept, declared_of(run)
    return _assembled(read_public(path), path)


def _kept(run: RunDirectory, path: str) -> PublicTables | None:
    """Return a run's own copy of a declaration if some of its files are gone; None if all are there or one changed."""
    if not (run / PLANNED).exists():
        return None
    kept = public_of(run)
    raw, there = json.loads(kept.text), exists(path)
    if there and read_raw(path) != raw:
        return None
    releases, gone = {each["release"] for each in raw.get("equal", ())}, not there
    for file, digest in kept.digests.items():
        place, is_release = beside(path, file), file in releases
        if not exists(f"{place}/{MANIFEST}" if is_release else place):
            gone = True
        elif digest != (release_digest(Path(place)) if is_release else digest_file(place)):
            return None
    return kept if gone else None


def public_of(run: RunDirectory) -> PublicTables:
    """Load what a run keeps of the public files."""
    return load_object(run / PLANNED, DeclaredDesign).public


def declared_of(run: RunDirectory) -> Declared:
    """Return the declaration of a run; nobody may change it, for it is cached."""
    return _declared(stamp(run / PLANNED), run)


@lru_cache(maxsize=2)
def _declared(_stamp: tuple[int, int], run: RunDirectory) -> Declared:
    use_kernels(run.runs_folder)
    _LAST.clear()  # a resumed run's process has assembled it to compare
    public, own = public_of(run), load_object(run / ASSEMBLED, Assembled)
    declaration, _ = read_declaration(json.loads(public.text))
    assert declaration is not None
    hierarchy = Hierarchy(declaration, own.spine, public.leaves, own.by_key)
    return Declared(declaration, hierarchy, own.figures, own.bounds, own.names, own.released, own.copied)
