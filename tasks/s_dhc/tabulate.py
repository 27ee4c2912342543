"""Join the encoded rows by housing unit, check each household, truncate, and count, bucket by bucket.

All exact counts of the run are one small array: states x (race, Hispanic or not) x cells of all tables. Regions and
iterations are sums of it. It is confidential, and so are the numbers of rows that broke a rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tasks.lifecycle.files import load_object, open_array, read_object, remove, save_arrays, save_object
from tasks.lifecycle.reservation import Input
from tasks.lifecycle.run_directory import VALIDATED, RunDirectory
from tasks.lifecycle.workers import Workers
from tasks.records.block_codes import STATE_UNIT
from tasks.records.findings import Finding, has_errors, keep_findings, load_findings, refuse
from tasks.records.record_digests import Sums, Weights, digests, sum_by_state, weights
from tasks.records.records import RecordFile
from tasks.s_dhc.configuration import HouseholdRules, TableQuery
from tasks.s_dhc.encode import ENCODED, rows_of
from tasks.s_dhc.records import GEO, PERSONS, UNITS
from tasks.s_dhc.run import EXACT, SOURCES, SDhcPlan, Sources, plan_of
from tasks.s_dhc.tables import ALL_CELLS, FIRST_CELL, GROUPS, PERSON_TABLES, RACES, cells_of_persons, cells_of_units
from tasks.s_dhc.truncation import order_by_hash

Severity = Literal["error", "household", "warning"]
RULES: tuple[tuple[str, str, Severity], ...] = (  # in the order of compiled_join: file, rule, severity
    ("units", "MAFIDs that occur more than once", "error"),
    ("geo", "MAFIDs that occur more than once", "error"),
    ("units", "MAFIDs that are not in geo", "error"),
    ("geo", "MAFIDs that are not in units", "error"),
    ("persons", "MAFIDs that are not in units", "error"),
    ("units", "RTYPE is not that of geo", "error"),
    ("persons", "RTYPE is not that of the unit: 3 in a housing unit (2), 5 in group quarters (4)", "error"),
    ("persons", "RELSHIP 37 or 38 outside of group quarters, or another within", "household"),
    ("units", "a household without exactly one householder (RELSHIP 20)", "household"),
    ("units", "a household with more than one spouse or partner (RELSHIP 21 to 24)", "household"),
    ("units", "HHSPAN, HHRACE, TEN, HHT, HHT2 and CPLT must be 0 without a household, and not 0 with one", "household"),
    ("units", "HHRACE is not the householder's CENRACE", "household"),
    ("units", "HHSPAN is not the householder's CENHISP", "household"),
    ("persons", "no cell of a table takes the person, by RELSHIP, HHT2, CPLT and TEN", "household"),
    ("units", "no cell of a table takes the household, by TEN", "household"),
    ("units", "HHT is not that of the persons", "warning"),
    ("units", "HHT2 is not that of the persons", "warning"),
    ("units", "CPLT is not that of the persons", "warning"),
    ("units", "FINAL_POP is not the number of persons", "warning"),
    ("units", "NPF is not the number of the householder and relatives", "warning"),
    ("units", "units outside the states of the run, left out", "warning"),
    ("persons", "persons outside the states of the run, left out", "warning"),
)
UNTRUNCATED = np.iinfo(np.int64).max


def tabulate(run: RunDirectory, workers: Workers) -> Input:
    """Check households and count them; save the exact counts in the run's directory.

    Raises Refused if the files contradict each other, or a household is inconsistent and config.json does not reduce
    that to a warning. The findings are in the run's findings.json, never in the message.
    """
    if (run / VALIDATED).exists():
        return load_object(run / VALIDATED, Input)
    sources = load_object(run / SOURCES, Sources)
    workers.map("tabulate", run, tabulate_bucket, [(bucket,) for bucket in range(sources.buckets)])
    folders = [run / f"counts/{bucket:05d}" for bucket in range(sources.buckets)]
    faults = np.sum([open_array(folder, "faults") for folder in folders], axis=0)
    configuration = plan_of(run).configuration
    sums = [read_object(folder.with_suffix(".sums"), dict[str, tuple[int, ...]]) for folder in folders]
    findings = [*load_findings(run), *_findings(faults, sources.files, configuration.household_rules)]
    if not any(state in configuration.states for of_bucket in sums for state in of_bucket):
        findings.append(Finding(sources.files["persons"].name, "no persons in the states of the run"))
    if has_errors(findings):
        refuse(run, findings)
    keep_findings(run, findings)
    remove(run / EXACT)
    save_arrays(run / EXACT, {"counts": np.sum([open_array(folder, "counts") for folder in folders], axis=0)})
    encoded = load_object(run / ENCODED, Input)
    of_states = digests("persons of the S-DHC", sums)
    tabulated = replace(encoded, records_digests=(*encoded.records_digests[:2], *of_states))
    save_object(run / VALIDATED, tabulated)
    remove(run / "rows")
    return tabulated


def _findings(
    faults: NDArray[np.int64], files: dict[str, RecordFile], household_rules: HouseholdRules
) -> Iterator[Finding]:
    for number, (kind, rule, severity) in zip(faults.tolist(), RULES, strict=True):
        if number:
            warning = severity == "warning" or (severity == "household" and household_rules == "warn")
            yield Finding(files[kind].name, rule, rows=number, warning=warning)


def tabulate_bucket(run: RunDirectory, bucket: int) -> None:
    """Count one bucket: counts/NUMBER with `counts`, int64 states x groups x cells, `faults` and `sums`."""
    folder = run / f"counts/{bucket:05d}"
    if folder.exists():
        return
    from tasks.s_dhc.compiled_join import join_and_count

    plan = plan_of(run)
    persons, units, geo = (rows_of(run, kind, bucket) for kind in (PERSONS, UNITS, GEO))
    tau = [plan.configuration.tau[table.name] if plan.truncated else UNTRUNCATED for table in PERSON_TABLES]
    order_by_hash(persons, tau)
    counts = np.zeros((len(plan.configuration.all_states), GROUPS, ALL_CELLS), np.int64)
    faults = np.zeros(len(RULES), np.int64)
    join_and_count(
        persons,
        units,
        geo,
        _places_of_states(plan),
        *_cells(),
        np.array(tau, np.int64),
        np.array([table.own_race for table in PERSON_TABLES]),
        counts,
        faults,
    )
    save_object(run / f"counts/{bucket:05d}.sums", _sums(persons, geo))
    save_arrays(folder, {"counts": counts, "faults": faults})


@cache
def _cells() -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    return cells_of_persons(), cells_of_units()


def _places_of_states(plan: SDhcPlan) -> NDArray[np.int64]:
    """Return the place of each state in the run's counts by its FIPS code, -1 outside the state filter."""
    places = np.full(128, -1, np.int64)
    for place, state in enumerate(plan.configuration.all_states):
        if state in plan.configuration.states:
            places[int(state)] = place
    return places


@cache
def _weights_of_values() -> Weights:
    return weights(np.arange(1 << PERSONS.bits))


def _sums(persons: NDArray[np.uint64], geo: NDArray[np.uint64]) -> Sums:
    """Return the sums of persons by state (record_digests.py), each person by housing unit and values."""
    if not len(persons):
        return {}
    identity, values = persons >> np.uint64(PERSONS.bits), persons & np.uint64((1 << PERSONS.bits) - 1)
    starts = np.flatnonzero(np.concatenate([[True], identity[1:] != identity[:-1]]))
    units = identity[starts]
    found = np.searchsorted(geo >> np.uint64(GEO.bits), units)
    states = (geo[np.minimum(found, len(geo) - 1)] >> np.uint64(1)) & np.uint64(127) if len(geo) else units * 0
    within = tuple(np.add.reduceat(each[values], starts) for each in _weights_of_values())
    blocks = (states * np.uint64(STATE_UNIT) + units).astype(np.int64)
    return sum_by_state(blocks, np.diff(starts, append=len(persons)), within)


def exact_answers(run: RunDirectory) -> dict[str, NDArray[np.int64]]:
    """Return the exact answer of each query of a tabulated run, by name; confidential."""
    counts = np.asarray(open_array(run / EXACT, "counts"))
    return {each.query.name: exact_answer(counts, each) for each in plan_of(run).configuration.queries()}


def exact_answer(counts: NDArray[np.int64], query: TableQuery) -> NDArray[np.int64]:
    """Return the exact answer of a query, regions x codes x cells, from the counts of the run; confidential."""
    first = FIRST_CELL[query.table.name]
    cells = counts[:, :, first : first + len(query.table.cells)]
    if query.region_type == "USA":
        cells = cells.sum(axis=0, keepdims=True)
    by_race = cells.reshape(len(cells), RACES, 2, -1)
    if query.level == "A-G":
        return np.asarray(by_race.sum(axis=2))
    if query.level == "H,I":
        return np.stack([by_race[:, :, 1].sum(axis=1), by_race[:, 0, 0]], axis=1)
    return np.asarray(cells.sum(axis=1, keepdims=True))
