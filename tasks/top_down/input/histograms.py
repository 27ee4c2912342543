"""Exact histograms: of each state's blocks, held against the declared invariants, and of every level of its spine.

Everything here is confidential. Estimation reads none of it: only measuring does, which adds the noise.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spine.geography import IntArray, geoid15
from spine.top_down.histogram import (
    HOUSEHOLD,
    OCCUPIED,
    PERSONS,
    PRODUCTS,
    TYPES,
    VACANT,
    TrueHistograms,
    from_entries,
    joined,
    summed,
)
from tasks.inputs.findings import SHOWN_VALUES, Finding
from tasks.inputs.records import RecordFile
from tasks.lifecycle.files import load_object, open_array, save_object, unless_done
from tasks.lifecycle.workers import Workers
from tasks.top_down.input.records import CELLS, FACILITY, records_name
from tasks.top_down.run import Blocks, TopDownRun, load_histograms, save_histograms
from tasks.top_down.run_plan import ENGINE, US, ProductName

BLOCKS = "blocks"  # the histograms of a state's blocks by geocode


def check_state(run: TopDownRun, product: ProductName, state: str) -> None:
    """Add up a state's chunks to the histograms of its blocks, and hold them against the declared invariants.

    The findings lie beside the counted chunks.
    """
    found_at = run / f"persons/{product}/{state}.findings"
    unless_done(found_at, lambda: save_object(found_at, _check(run, product, state)))


def _check(run: TopDownRun, product: ProductName, state: str) -> list[Finding]:
    blocks = run.state(state)
    row, cell, count = _entries(run, product, blocks.first, blocks.first + len(blocks.geography))
    findings = _FAULTS[product](run, blocks, state, row, cell, count)
    counted = cell < PRODUCTS[ENGINE[product]].cells  # group quarters among the units are no part of H1
    histograms = from_entries(TrueHistograms, -1, 0, row[counted], cell[counted], count[counted], len(blocks.geography))
    save_histograms(run.counts_folder(product, state, BLOCKS), histograms)
    return findings


def _entries(run: TopDownRun, product: ProductName, first: int, last: int) -> tuple[IntArray, IntArray, IntArray]:
    """(row, cell, count) of blocks first ... last - 1 over all chunks; a pair may stand in several."""
    width = CELLS[product]
    file: RecordFile = load_object(run / records_name(product))
    keys, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for number in range(file.chunks):
        folder = run.chunk_folder(product, number)
        if folder.exists():  # a chunk without a row has none
            key = open_array(folder, "key")
            within = slice(*np.searchsorted(key, (first * width, last * width)).tolist())
            keys.append(np.asarray(key[within]))
            counts.append(np.asarray(open_array(folder, "count")[within]))
    key = np.concatenate(keys) - first * width
    return key // width, key % width, np.concatenate(counts)


def _person_faults(
    run: TopDownRun, blocks: Blocks, state: str, row: IntArray, cell: IntArray, count: IntArray
) -> list[Finding]:
    quarters, geocode = blocks.quarters, blocks.geography.geocode
    by_type = np.zeros((len(geocode), TYPES), np.int64)
    np.add.at(by_type, (row, PERSONS.types[cell]), count)
    file = _file(run, "persons")
    findings = list(
        _by_block(
            file,
            geocode,
            ("persons in households where no housing unit is declared", "GQTYPE_PL"),
            (by_type[:, HOUSEHOLD] > 0) & (quarters[:, HOUSEHOLD] == 0),
        )
    )
    for kind in range(1, TYPES):
        here = by_type[:, kind]
        facilities = quarters[:, kind]
        rule = f"persons in group quarters of type {kind} where no facility is declared"
        findings += _by_block(file, geocode, (rule, "GQTYPE_PL"), (here > 0) & (facilities == 0))
        rule = f"fewer persons in group quarters of type {kind} than facilities are declared"
        findings += _by_block(
            file, geocode, (rule, "GQTYPE_PL"), (here < facilities) & ~((here > 0) & (facilities == 0))
        )
    if int(count.sum()) != blocks.totals[int(state)]:
        rule = f"state {state} does not have the number of persons that is declared for it"
        findings.append(Finding(file, rule, "TABBLKST"))
    return findings


def _unit_faults(
    run: TopDownRun, blocks: Blocks, state: str, row: IntArray, cell: IntArray, count: IntArray
) -> list[Finding]:
    quarters, geocode = blocks.quarters, blocks.geography.geocode
    units = np.zeros((len(geocode), 2), np.int64)
    np.add.at(units, (row, (cell == FACILITY).astype(np.int64)), count)
    file = _file(run, "units")
    rules = (
        ("a number of housing units other than declared", units[:, 0] != quarters[:, HOUSEHOLD]),
        ("a number of group quarters other than declared", units[:, 1] != quarters[:, 1:].sum(axis=1)),
    )
    return [finding for rule, bad in rules for finding in _by_block(file, geocode, (rule, "TABBLK"), bad)]


_FAULTS = {"persons": _person_faults, "units": _unit_faults}


def _by_block(file: str, geocode: IntArray, rule: tuple[str, str], bad: IntArray) -> Iterator[Finding]:
    """A finding that counts blocks, and names them to the curator."""
    at = np.flatnonzero(bad)
    if len(at):
        shown = tuple(geoid15(code) for code in geocode[at[:SHOWN_VALUES]].tolist())
        yield Finding(file, f"blocks with {rule[0]}", rule[1], len(at), None, shown)


def _file(run: TopDownRun, product: ProductName) -> str:
    file: RecordFile = load_object(run / records_name(product))
    return file.name


def sum_histograms(run: TopDownRun, workers: Workers) -> None:
    """Put every state's histograms in the order of its spine and sum them up; then the nation's, where it is asked."""
    each = [(product, state) for product in run.design.products for state in run.validated.states]
    workers.map("histograms", run, sum_state, each)
    if run.validated.nation:
        workers.map("histograms", run, sum_nation, [(product,) for product in run.design.products])


def sum_state(run: TopDownRun, product: ProductName, state: str) -> None:
    """Write the exact histograms of every level of a state's spine."""
    spine = run.spine(product, state)
    folders = [run.counts_folder(product, state, level) for level in spine.levels]
    if all(folder.exists() for folder in folders):
        return
    by_geocode = load_histograms(run.counts_folder(product, state, BLOCKS), TrueHistograms)
    place = np.empty(spine.blocks, np.int64)
    place[spine.order] = np.arange(spine.blocks)
    lowest = len(spine.levels) - 1
    row = place[by_geocode.row]
    blocks = from_entries(TrueHistograms, lowest, 0, row, by_geocode.cell, by_geocode.count, spine.blocks)
    for folder, histograms in zip(folders, summed(blocks, spine), strict=True):
        if not folder.exists():
            save_histograms(folder, histograms)


def sum_nation(run: TopDownRun, product: ProductName) -> None:
    """Write the exact histogram of the nation, from those of the states' parts."""
    folder = run.counts_folder(product, US, US)
    if folder.exists():
        return
    parts = joined(
        [load_histograms(run.counts_folder(product, state, "State"), TrueHistograms) for state in run.validated.states]
    )
    save_histograms(run.counts_folder(product, US, "State"), parts)
    first_row = np.zeros(len(parts.cell), np.int64)
    save_histograms(folder, from_entries(TrueHistograms, 0, 0, first_row, parts.cell, parts.count, 1))


assert (VACANT, OCCUPIED, FACILITY) == (0, 1, 2)
