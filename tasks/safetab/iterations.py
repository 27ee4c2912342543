"""Map race and ethnicity codes to characteristic iterations (paper 5.4.1).

The files: docs/spec/files.md#iteration-files. The rule: docs/spec/safetab-p.md#person-to-population-groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privacy.accounting.stability import IterationCounts, stability
from tasks.records.findings import Finding, has_errors
from tasks.records.tables import check_distinct, check_mask, check_pattern, read_table
from tasks.safetab.levels import ITERATION_LEVELS, Level

if TYPE_CHECKING:
    from scipy import sparse

CODES_FILE = "race-and-ethnicity-codes.txt"
RACE_FILE = "race-characteristic-iterations.txt"
ETHNICITY_FILE = "ethnicity-characteristic-iterations.txt"
MAPPING_FILE = "race-and-ethnicity-code-to-iteration.txt"
PARAMETER_FILES = ("config.json", CODES_FILE, RACE_FILE, ETHNICITY_FILE, MAPPING_FILE)
RACE_COLUMNS = ("ITERATION_CODE", "ITERATION_NAME", "LEVEL", "ALONE", "DETAILED_ONLY", "COARSE_ONLY")
ETHNICITY_COLUMNS = ("ITERATION_CODE", "ITERATION_NAME", "LEVEL", "DETAILED_ONLY", "COARSE_ONLY")
MAPPING_COLUMNS = ("ITERATION_CODE", "RACE_ETH_CODE")
ITERATION_KINDS = ("alone", "combination", "ethnicity")
RACE_CODES = 8  # QRACE1 .. QRACE8; the ninth code of a combination is QSPAN


@dataclass(frozen=True)
class Granularity:
    """The iterations that one granularity (nation/state or sub-state) tabulates, and the map of codes to them.

    codes: tuple of str; iteration codes, sorted; the index in it is the iteration's number below.
    level: uint8 array, one per iteration; 1 Regional, 2 Detailed.
    total_only: bool array, one per iteration; DETAILED_ONLY=True: only a total is tabulated.
    maps: {(kind, iteration level): int32 array, one per race/ethnicity code number}; the iteration that a code maps to,
        or -1. Entry 0 is Null.
    """

    codes: tuple[str, ...]
    level: NDArray[np.uint8]
    total_only: NDArray[np.bool_]
    maps: dict[tuple[str, int], NDArray[np.int32]]

    def of_level(self, iteration_level: int) -> NDArray[np.int64]:
        """Return the numbers of the iterations of one level, in the order of their codes."""
        return np.flatnonzero(self.level == iteration_level)

    def flatmap(self, combinations: NDArray[np.uint16]) -> sparse.csr_array:
        """Return the iterations, of both levels, of combinations of codes: the map g_i of the paper's Table 5.

        combinations: n x 9; the numbers of QRACE1..QRACE8 (0 for Null) and QSPAN. Returns a 0/1 matrix, n x iterations.
        """
        from scipy import sparse

        races, spanish = combinations[:, :RACE_CODES], combinations[:, RACE_CODES:]
        found: list[NDArray[np.int32]] = []  # n x any number each; -1 for no iteration
        for iteration_level in ITERATION_LEVELS:
            alone, combination, ethnicity = (self.maps[kind, iteration_level] for kind in ITERATION_KINDS)
            # "Alone" intersects over the codes: a code has one iteration, so all codes must have the same.
            first = alone[races[:, :1]]
            agree = ((alone[races] == first) | (races == 0)).all(axis=1, keepdims=True)
            found += [combination[races], np.where(agree, first, np.int32(-1)), ethnicity[spanish]]
        iterations = np.concatenate(found, axis=1)
        inside = iterations >= 0
        rows = np.repeat(np.arange(len(combinations), dtype=np.int32), inside.sum(axis=1))
        ones, shape = np.ones(len(rows), np.int32), (len(combinations), len(self.codes))
        matrix = sparse.coo_array((ones, (rows, iterations[inside])), shape).tocsr()
        matrix.data[:] = 1  # two codes of one iteration count once
        return matrix

    def counts(self, iteration_level: int) -> IterationCounts:
        """Return the counts of one level that determine its stability."""
        alone, combination, ethnicity = (self.maps[kind, iteration_level] for kind in ITERATION_KINDS)
        both = (alone >= 0) & (combination >= 0)
        pairs = np.unique(alone[both].astype(np.int64) * len(self.codes) + combination[both])
        reach = int(np.bincount(pairs // len(self.codes)).max(initial=0))
        return IterationCounts(
            alone=int((alone >= 0).any()),
            combination=int((combination >= 0).any()),
            ethnicity=int((ethnicity >= 0).any()),
            alone_reach=reach,
            all_combination=len(np.unique(combination[combination >= 0])),
        )


@dataclass(frozen=True)
class Iterations:
    """The race/ethnicity codes and the iterations of both granularities; public.

    A code's number is its index in `codes` (sorted) plus 1; 0 is Null. `names` are the names of the iterations.
    """

    codes: tuple[str, ...]
    nation_state: Granularity
    sub_state: Granularity
    names: dict[str, str]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Code number by code, `Null` included."""
        return {"Null": 0, **{code: number for number, code in enumerate(self.codes, start=1)}}

    @cached_property
    def tabulated(self) -> tuple[str, ...]:
        """The codes of the iterations of both granularities, sorted."""
        return tuple(sorted({*self.nation_state.codes, *self.sub_state.codes}))

    def granularity(self, level: Level) -> Granularity:
        """Return the iterations that a population group level tabulates (of both iteration levels)."""
        return self.nation_state if level.nation_or_state else self.sub_state

    def stability(self, level: Level, max_race_codes: int) -> int:
        """Return the stability s of a population group level. Raises ValueError if a record can exceed it."""
        return stability(self.granularity(level).counts(level.iteration_level), max_race_codes)


def read_iterations(params: str) -> tuple[Iterations | None, list[Finding]]:
    """Read and check the four parameter files; return None if a finding is an error."""
    tables: dict[str, pa.Table] = {}
    findings: list[Finding] = []
    for file, columns in (
        (CODES_FILE, ("RACE_ETH_CODE", "RACE_ETH_NAME")),
        (RACE_FILE, RACE_COLUMNS),
        (ETHNICITY_FILE, ETHNICITY_COLUMNS),
        (MAPPING_FILE, MAPPING_COLUMNS),
    ):
        table, faults = read_table(f"{params.rstrip('/')}/{file}", file, columns)
        findings += faults
        if table is not None:
            tables[file] = table
            findings += _check_values(file, table)
    if len(tables) < 4 or has_errors(findings):
        return None, findings
    findings += _check_across(tables)
    if has_errors(findings):
        return None, findings
    iterations = _build(tables)
    findings += list(_differing_hierarchies(iterations))
    return iterations, findings


def _check_values(file: str, table: pa.Table) -> Iterator[Finding]:
    patterns = {
        "RACE_ETH_CODE": "[1-9][0-9]{3}",
        "ITERATION_CODE": "[0-9]{4}",
        "LEVEL": "[0-9]",
        "ALONE": "True|False",
        "DETAILED_ONLY": "True|False|Null",
        "COARSE_ONLY": "True|False|Null",
    }
    for column in table.column_names:
        if column in patterns:
            yield from check_pattern(file, table, column, patterns[column])
    key = {CODES_FILE: "RACE_ETH_CODE", RACE_FILE: "ITERATION_CODE", ETHNICITY_FILE: "ITERATION_CODE"}.get(file)
    if key:
        yield from check_distinct(file, table, key, "codes that appear twice", np.array(table[key].to_pylist()))
    if "LEVEL" in table.column_names:
        level, detailed, coarse = (table[name] for name in ("LEVEL", "DETAILED_ONLY", "COARSE_ONLY"))
        both = pc.and_(pc.equal(detailed, "True"), pc.equal(coarse, "True"))
        yield from check_mask(file, table, "ITERATION_CODE", "DETAILED_ONLY and COARSE_ONLY are both True for", both)
        zero = pc.equal(level, "0")
        for column, values in (("DETAILED_ONLY", detailed), ("COARSE_ONLY", coarse)):
            differs = pc.not_equal(zero, pc.equal(values, "Null"))
            yield from check_mask(
                file, table, "ITERATION_CODE", f"{column} must be Null exactly where LEVEL is 0; not so for", differs
            )
        deep = pc.is_in(level, pa.array(list("3456789")))
        yield from check_mask(file, table, "ITERATION_CODE", "LEVEL above 2 is never tabulated", deep)


def _check_across(tables: dict[str, pa.Table]) -> Iterator[Finding]:
    codes, race, ethnicity, mapping = (tables[file] for file in (CODES_FILE, RACE_FILE, ETHNICITY_FILE, MAPPING_FILE))
    both = pc.is_in(ethnicity["ITERATION_CODE"], race["ITERATION_CODE"])
    yield from check_mask(ETHNICITY_FILE, ethnicity, "ITERATION_CODE", "codes that are race iterations as well", both)
    listed = pa.chunked_array([*race["ITERATION_CODE"].chunks, *ethnicity["ITERATION_CODE"].chunks])
    for column, domain, where in (
        ("ITERATION_CODE", listed, "the iteration files"),
        ("RACE_ETH_CODE", codes["RACE_ETH_CODE"], CODES_FILE),
    ):
        absent = pc.invert(pc.is_in(mapping[column], domain))
        yield from check_mask(MAPPING_FILE, mapping, column, f"codes that are not in {where}", absent)
    unmapped = pc.invert(pc.is_in(codes["RACE_ETH_CODE"], mapping["RACE_ETH_CODE"]))
    yield from check_mask(CODES_FILE, codes, "RACE_ETH_CODE", "codes that map to no iteration", unmapped, warning=True)
    pairs = _pairs(mapping)
    for kind, iteration_level, nation_state, members in _selections(tables):
        reached: dict[str, set[str]] = {}
        for iteration, code in pairs:
            if iteration in members:
                reached.setdefault(code, set()).add(iteration)
        several = {code: sorted(reach) for code, reach in sorted(reached.items()) if len(reach) > 1}
        if several:
            listing = "; ".join(f"{code}: {', '.join(reach)}" for code, reach in list(several.items())[:10])
            listing += "; …" * (len(several) > 10)
            where = "nation/state" if nation_state else "sub-state"
            yield Finding(
                MAPPING_FILE,
                f"codes that map to more than one {kind} iteration of level {iteration_level}, {where}: {listing}",
                "RACE_ETH_CODE",
                rows=len(several),
            )


def _selections(tables: dict[str, pa.Table]) -> Iterator[tuple[str, int, bool, set[str]]]:
    """Yield (kind, level, nation/state?, iteration codes) for the three kinds, two levels and two granularities."""
    rows = [
        {"kind": "alone" if row["ALONE"] == "True" else "combination", **row} for row in tables[RACE_FILE].to_pylist()
    ]
    rows += [{"kind": "ethnicity", **row} for row in tables[ETHNICITY_FILE].to_pylist()]
    for nation_state in (True, False):
        barred = "COARSE_ONLY" if nation_state else "DETAILED_ONLY"
        for kind in ITERATION_KINDS:
            for iteration_level in ITERATION_LEVELS:
                key = kind, str(iteration_level), "False"
                chosen = {row["ITERATION_CODE"] for row in rows if (row["kind"], row["LEVEL"], row[barred]) == key}
                yield kind, iteration_level, nation_state, chosen


def _build(tables: dict[str, pa.Table]) -> Iterations:
    codes = tuple(sorted(tables[CODES_FILE]["RACE_ETH_CODE"].to_pylist()))
    number = {code: position for position, code in enumerate(codes, start=1)}
    mapping = _pairs(tables[MAPPING_FILE])
    rows = [row for file in (RACE_FILE, ETHNICITY_FILE) for row in tables[file].to_pylist()]
    total_only = {row["ITERATION_CODE"] for row in rows if row["DETAILED_ONLY"] == "True"}
    selections = list(_selections(tables))

    def granularity(nation_state: bool) -> Granularity:
        chosen = [(kind, level, members) for kind, level, nation, members in selections if nation == nation_state]
        level_of = {code: level for _, level, members in chosen for code in members}
        ordered = tuple(sorted(level_of))
        position = {code: index for index, code in enumerate(ordered)}
        maps = {}
        for kind, level, members in chosen:
            to_iteration = np.full(len(codes) + 1, -1, np.int32)
            for iteration, code in mapping:
                if iteration in members:
                    to_iteration[number[code]] = position[iteration]
            maps[kind, level] = to_iteration
        return Granularity(
            codes=ordered,
            level=np.array([level_of[code] for code in ordered], np.uint8),
            total_only=np.array([code in total_only for code in ordered], bool),
            maps=maps,
        )

    names = {row["ITERATION_CODE"]: row["ITERATION_NAME"] for row in rows}
    return Iterations(codes, granularity(True), granularity(False), names)


def _pairs(mapping: pa.Table) -> list[tuple[str, str]]:
    return list(zip(*(mapping[name].to_pylist() for name in MAPPING_COLUMNS), strict=True))


def _differing_hierarchies(iterations: Iterations) -> Iterator[Finding]:
    """Warn if alone and in-combination iterations group the codes differently, as in the production files."""
    for where, granularity in (("nation/state", iterations.nation_state), ("sub-state", iterations.sub_state)):
        for iteration_level in ITERATION_LEVELS:
            alone = granularity.maps["alone", iteration_level]
            combination = granularity.maps["combination", iteration_level]
            pairs = {(int(a), int(c)) for a, c in zip(alone, combination, strict=True) if a >= 0 or c >= 0}
            matched = len({a for a, _ in pairs}) == len({c for _, c in pairs}) == len(pairs)
            if not matched or any(-1 in pair for pair in pairs):
                yield Finding(
                    MAPPING_FILE,
                    f"alone and in-combination iterations of level {iteration_level}, {where}, group the codes "
                    "differently",
                    "RACE_ETH_CODE",
                    rows=sum(1 for a, c in pairs if -1 in (a, c)) or 1,
                    warning=True,
                )
