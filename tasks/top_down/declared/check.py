"""Checks of a declaration's release, from its files alone: its spend, the laws of its measurements, and its sums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tasks.errors import Refused
from tasks.releases.check import Check, NotChecked
from tasks.releases.manifest import mark_of
from tasks.releases.received import NotOfRelease, path_in, read_in
from tasks.releases.statements import OF_THE_RUN, PUBLIC_FILE, Digest, Line, Unshown
from tasks.top_down.check.statements import SOLVED, Failed, Parents, stated_shares
from tasks.top_down.choices import ESTIMATORS, Estimator
from tasks.top_down.declared.description import (
    COUNT,
    MEASUREMENTS,
    declaration_of,
    geounit_columns,
    names_file,
    released_levels,
)
from tasks.top_down.declared.measurements import read_measurements
from tasks.top_down.declared.public_tables import Declared, PublicTables, assemble
from tasks.top_down.declared.release import designed, names_text
from tasks.top_down.declared.source import names_of
from tasks.top_down.declared.tabulate import contradictions
from tasks.top_down.published.release_source import read_answers
from tasks.top_down.release.manifest import measured

NOT_RELEASED = "the public tables are released with the measurements alone"


def statements(release: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statements of a release besides those of every release."""
    truth, estimate = "NOT_PRIVATE" in manifest, "ESTIMATE" in manifest
    estimator: Estimator = "topdown" if truth else ESTIMATORS[ESTIMATORS.index(manifest["estimator"])]
    if truth or estimate:
        own = _without_tables(manifest, truth=truth)
    else:
        public, declared = _read_public(release, manifest)
        own = designed(declared, public, estimator, truth=False, drawn=True)
        own["public_files"] = dict.fromkeys(own["public_files"], Unshown(Digest, PUBLIC_FILE))
    by = {"ESTIMATE": Unshown(Line, OF_THE_RUN), "measured_by": Unshown(Line, OF_THE_RUN)}
    return {
        **own,
        **(by if estimate else {}),
        "solved": Unshown(Parents, SOLVED),
        "failed": Unshown(Failed, SOLVED),
        "configuration_digest": Unshown(Digest, "the folders of the public files are not published"),
    }


def _without_tables(manifest: Mapping[str, Any], *, truth: bool) -> dict[str, Any]:
    """Return the statements of a release without its public tables: those that follow from the declaration."""
    declaration = declaration_of(manifest)
    names = [level.name for level in declaration.levels]
    shares = {} if truth else {name: sorted(stated_shares(manifest, name)) for name in names}
    unshown = {
        "declared_unchanged": list[str],
        "constraints": Line,
        "geounits": dict[str, int],
        "public_files": dict[str, Digest],
        "statements": dict[str, str],
    }
    return {
        "title": f"{declaration.form.name}: {declaration.records} by the TopDown Algorithm",
        "spent": None,
        "declaration": manifest["declaration"],
        "estimator": None if truth else manifest["estimator"],
        "cells": declaration.product.cells,
        "measurements": False,
        **{name: Unshown(kind, NOT_RELEASED) for name, kind in unshown.items() if not (truth and name == "statements")},
        **({"statements": {}} if truth else {}),
        **measured(declaration.allocation, declaration.allocation.levels, shares),
    }


def _read_public(release: Path, manifest: Mapping[str, Any]) -> tuple[PublicTables, Declared]:
    """Return the public tables of a release. Raises NotOfRelease where they are of another declaration or run."""
    found = read_measurements(release)
    stated = manifest["run"], mark_of(manifest), manifest["estimator"]
    if (found.run, found.mark, found.estimator) != stated:
        raise NotOfRelease(f"{MEASUREMENTS}/ are of another run, mark or estimator than the manifest states")
    return found.public, assemble(found.public)


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check | NotChecked]:
    """Check the answers of every geounit, every level against the one below it, and the declared figures."""
    declaration = declaration_of(manifest)
    axes = [axis.name for axis in declaration.product.axes]
    below = None
    for level in reversed(released_levels(declaration)):
        names = [column.name for column in geounit_columns(declaration, level)]
        table = pd.read_parquet(path_in(release, f"parquet/{level}.parquet"))
        faults = ["it has counts that are not positive"] if (table[COUNT] <= 0).any() else []
        sums = table.groupby(names + axes, sort=True)[COUNT].sum()
        if below is not None and not sums.equals(below.groupby(names + axes, sort=True)[COUNT].sum()):
            faults.append("it is not the sum of the level below it")
        yield Check(f"sums of {level}", f"{len(table):,} rows", tuple(faults))
        below = table
    if manifest["measurements"]:
        yield NotChecked(f"{MEASUREMENTS}/*: value", "noise is shown by nothing but itself")
        _, declared = _read_public(release, manifest)
        for number, each in enumerate(declaration.levels):
            yield _check_answers(release, declared, number, each.name)
        yield from _check_figures(release, declared)
        yield from (_check_names(release, declared, level) for level in declared.names)
    else:
        if any(level.names for level in declaration.levels):
            yield NotChecked("names/*", NOT_RELEASED)
        yield NotChecked("declared figures", NOT_RELEASED)
    if any(name.startswith("margins/") for name in manifest["files"]):
        yield NotChecked("margins/*: *", "estimates are not made again")


def _check_figures(release: Path, declared: Declared) -> Iterator[Check | NotChecked]:
    """Check that the counts of the leaves have the declared figures."""
    declaration, hierarchy = declared.declaration, declared.hierarchy
    name = declaration.levels[-1].name
    if name not in released_levels(declaration):
        yield NotChecked("declared figures", f"the level {name} is not released")
        return
    names = [column.name for column in geounit_columns(declaration, name)]
    table = pd.read_parquet(path_in(release, f"parquet/{name}.parquet"))
    codes = hierarchy.codes(len(declaration.levels) - 1)
    index = pd.MultiIndex.from_arrays([[str(code) for code in codes[column]] for column in names])
    leaf = index.get_indexer(pd.MultiIndex.from_frame(table[names].astype(str)))
    cell = np.zeros(len(table), np.int64)
    for axis in declaration.product.axes:
        cell = cell * len(axis.codes) + pd.Index(axis.codes).get_indexer(pd.Index(table[axis.name].astype(str))).astype(
            np.int64
        )
    strange = int((leaf < 0).sum())
    faults = [f"{strange:,} rows are of no {name} that is declared"] * bool(strange)
    if not strange:
        count = table[COUNT].to_numpy().astype(np.int64)
        faults += [finding.rule for finding in contradictions(declared, leaf.astype(np.int64), cell, count)]
    yield Check("declared figures", f"{len(index):,} geounits", tuple(faults))


def _check_names(release: Path, declared: Declared, level: str) -> Check:
    """Check that the geounits of a level have the names in the table of leaves."""
    same = read_in(release, names_file(level)).decode("utf-8", "replace") == names_text(declared, level)
    return Check(f"names of {level}", f"{len(declared.names[level]):,} geounits", () if same else ("they differ",))


def _check_answers(release: Path, declared: Declared, number: int, level: str) -> Check:
    """Check that the geounits of a level have the answers of its queries, each once and of the law of its share."""
    path, faults = path_in(release, f"{MEASUREMENTS}/{level}.parquet"), []
    try:
        for _ in read_answers(declared.plan, number, path, names_of(declared, level)):
            pass
    except Refused as fault:
        faults = [str(fault)]
    return Check(f"answers of {level}", f"{len(declared.plan.spine.starts[number]):,} geounits", tuple(faults))
