"""The published totals of the Detailed DHC-A: they name the groups of a run and choose the detail of their tables.

They come from a release of das-flows, whose manifest must name the same public files as this run, or as text from a
curator, who vouches for that (docs/detailed-dhcb.md#totals). Public: no rule here depends on a household.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from privacy.accounting.states import STATES_PR, STATES_US
from spine.settings import Jurisdiction
from tasks.errors import Refused
from tasks.geography.grf_c import RegionMap
from tasks.geography.region_files import is_region
from tasks.geography.regions import REGION_TYPES
from tasks.records.files import digest_file, exists, read_bytes, unchanged
from tasks.records.findings import Finding, has_errors
from tasks.records.marks import GRF_FILE, read_mark
from tasks.records.tables import LINE, EncodedColumn, check_header, check_mask, empty, read_table
from tasks.releases.manifest import MANIFEST, read_manifest, require_release
from tasks.releases.received import path_in
from tasks.safetab.coterminous import ALL_TYPES
from tasks.safetab.domain import load_domain
from tasks.safetab.households.household import TOTALS_FILE, TOTALS_PARQUET
from tasks.safetab.households.run import HouseholdRun, TotalsRead
from tasks.safetab.levels import ITERATION_LEVELS, Level
from tasks.safetab.run import PublicInput

COLUMNS = ("REGION_ID", "REGION_TYPE", "ITERATION_CODE", "COUNT")
TITLE = "Detailed DHC-A by SafeTab-P"  # the releases that have totals
OTHER_JURISDICTION = "groups of the other jurisdiction, left out"
OTHER_STATE = "groups of regions outside the run's states, left out"
NOT_TABULATED = "groups of an iteration that is not tabulated at their level, left out"
NO_BUDGET = "groups of a level without a budget, left out"
WHOLE = re.compile("-?[0-9]{1,15}")
NOWHERE, ELSEWHERE = -1, -2  # in place of a region's number
Groups = dict[Level, tuple[NDArray[np.int64], NDArray[np.int64]]]  # numbers in the level's domain, sorted; totals


def totals_input(source: str | None, data: str, jurisdiction: Jurisdiction) -> PublicInput:
    """Return the input with the totals of a run: the file in its data, or the release that `source` names.

    A folder with releases of both the US and Puerto Rico stands for the one of the run's jurisdiction.
    """
    if source is None:
        path = _declared(data)
        return PublicInput(TOTALS_FILE, (path,), partial(_read_declared, data=data, path=path))
    below = Path(source) / jurisdiction
    place = below if (below / MANIFEST).exists() and not (Path(source) / MANIFEST).exists() else Path(source)
    return PublicInput(TOTALS_FILE, (str(place / MANIFEST),), partial(_read_release, data=data, release=place))


def _declared(data: str) -> str:
    """Return the path of the totals in a data directory: text if it exists, else Parquet."""
    text, columns = (f"{data.rstrip('/')}/{name}" for name in (TOTALS_FILE, TOTALS_PARQUET))
    return columns if exists(columns) and not exists(text) else text


def _read_declared(run: HouseholdRun, geography: RegionMap, *, data: str, path: str) -> list[Finding]:
    if not exists(path):
        return [Finding(TOTALS_FILE, "the file does not exist; add it, or name a release by --totals")]
    return _read(_Domains(run, geography, data), {TOTALS_FILE: path}, None, [])


def _read_release(run: HouseholdRun, geography: RegionMap, *, data: str, release: Path) -> list[Finding]:
    """Read the totals of a release.

    Raises Refused if it is not a release with noise, if a file is not the one that its manifest names, or if a file
    changes meanwhile.
    """
    require_release(release)
    manifest, domains = read_manifest(release), _Domains(run, geography, data)
    names = [name for name in manifest["files"] if name.startswith("parquet/t1/")]
    files = {name: str(path_in(release, name)) for name in names}
    with unchanged(files.values()):
        if changed := [name for name in names if digest_file(files[name]) != manifest["files"][name]]:
            raise Refused(f"--totals {release}: {changed[0]} is not the file that its manifest names")
        try:
            faults = list(_compare(domains, manifest))
            return _read(domains, files, str(manifest["run"]), faults)
        except (KeyError, TypeError):
            raise Refused(f"--totals {release}: its manifest is not that of a release") from None


def _compare(domains: _Domains, manifest: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield how the public files of a release, by its manifest, differ from this run's."""
    if manifest["release"] != TITLE:
        raise Refused(f"--totals names a release of {manifest['release']!r:.80}, not of the {TITLE}")
    mark = read_mark(domains.data)
    if "NOT_PRIVATE" in manifest and not (mark and mark.name == "SYNTHETIC"):
        raise Refused("--totals names a release of exact counts, which is for households marked synthetic alone")
    configuration, digests = domains.run.parameters.configuration, domains.run.parameters.digests
    ours: dict[str, Any] = {
        "region": domains.jurisdiction.upper(),
        "states": list(configuration.states(domains.jurisdiction)),
        "GRF-C": digest_file(f"{domains.data.rstrip('/')}/{GRF_FILE}"),
        "max_race_codes": configuration.max_race_codes,
        **{file: digest for file, digest in digests.items() if file != "config.json"},
    }
    theirs = {
        "region": manifest["region"],
        **manifest["geography"],
        "max_race_codes": manifest["configuration"]["max_race_codes"],
        **manifest["parameter_files"],
    }
    if theirs["region"] != ours["region"]:
        here = f"{theirs['region']!s:.80}, and not of {ours['region']}"
        yield Finding(TOTALS_FILE, f"the release of the totals is of {here}: name the folder that holds us/ and pr/")
        return
    for name, value in ours.items():
        if theirs.get(name) != value:
            other = "other" if name == "states" else "another"
            yield Finding(TOTALS_FILE, f"the release of the totals was made with {other} {name.replace('_', ' ')}")


def _read(domains: _Domains, files: Mapping[str, str], released: str | None, findings: list[Finding]) -> list[Finding]:
    """Read and save the groups in these files; return all findings, `findings` included.

    released: the run of the release; None for a curator's text.
    """
    parts, left_out = [], Counter[str]()
    for file, path in files.items():
        if path.endswith(".parquet"):
            table, faults = _read_columns(path, file, more=released is not None)
        else:
            table, faults = read_table(path, file, COLUMNS, dictionary=True)
        if released and faults == [empty(file)]:
            continue  # nothing was published at this level
        findings = findings + faults
        if table is not None and not has_errors(faults):
            groups, faults = domains.groups_of(file, table, left_out)
            findings += faults
            parts.append(groups)
    omitted = {rule: rows for rule, rows in sorted(left_out.items()) if rows}
    findings += [Finding(TOTALS_FILE, rule, rows=rows, warning=True) for rule, rows in omitted.items()]
    if has_errors(findings):
        return findings
    joined = {level: _join([part[level] for part in parts if level in part]) for level in domains.levels}
    if any((group[1:] == group[:-1]).any() for group, _ in joined.values()):  # in two files
        return [*findings, Finding(TOTALS_FILE, "groups that appear twice")]
    if not any(len(group) for group, _ in joined.values()):
        return [*findings, Finding(TOTALS_FILE, "no group is left for this run")]
    domains.run.save_totals(joined, TotalsRead(released, omitted))
    return findings


def _read_columns(path: str, file: str, *, more: bool) -> tuple[pa.Table | None, list[Finding]]:
    """Read totals in Parquet as `read_table` reads text. COUNT may be a number; LINE is the row, from 1.

    more: accept further columns.
    """
    try:
        table = pq.read_table(pa.BufferReader(read_bytes(path)), read_dictionary=COLUMNS).unify_dictionaries()
    except (OSError, pa.ArrowException):
        return None, [Finding(file, "the file cannot be read as Parquet")]
    findings = check_header(file, table.column_names, COLUMNS, more=more)
    if findings or not len(table):
        return None, findings or [empty(file)]
    read = {}
    for name in COLUMNS:
        kind = table[name].type
        of_dictionary = kind.value_type if pa.types.is_dictionary(kind) else kind
        whole = name == "COUNT" and pa.types.is_integer(of_dictionary)
        if table[name].null_count or not (whole or pa.types.is_string(of_dictionary)):
            return None, [Finding(file, "must hold text in every row; COUNT may be whole numbers", name)]
        coded = of_dictionary is not kind and not whole
        read[name] = table[name] if coded else table[name].cast(pa.string()).dictionary_encode()
    return pa.table({**read, LINE: np.arange(1, len(table) + 1, dtype=np.int32)}), []


def _join(parts: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    none = np.zeros(0, np.int64)
    group = np.concatenate([none, *(group for group, _ in parts)])
    order = np.argsort(group, kind="stable")
    return group[order], np.concatenate([none, *(count for _, count in parts)])[order]


@dataclass(frozen=True)
class _Domains:
    """The domains in which the groups of totals are looked up."""

    run: HouseholdRun
    geography: RegionMap
    data: str

    @property
    def jurisdiction(self) -> Jurisdiction:
        """The jurisdiction of the run."""
        return "us" if "USA" in self.geography.region_ids else "pr"

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels of the run."""
        levels: tuple[Level, ...] = self.run.parameters.configuration.levels(self.jurisdiction)
        return levels

    def groups_of(self, file: str, table: pa.Table, left_out: Counter[str]) -> tuple[Groups, list[Finding]]:
        """Return the run's groups in a table, by level; count the groups that are left out, by reason."""
        iterations, levels = self.run.parameters.iterations, self.levels
        known = {*iterations.nation_state.codes, *iterations.sub_state.codes}
        kind, region, code, count = (
            EncodedColumn(table[name]) for name in ("REGION_TYPE", "REGION_ID", "ITERATION_CODE", "COUNT")
        )
        group = (kind.numbers.astype(np.int64) * len(region.values) + region.numbers) * len(code.values) + code.numbers
        here = kind.where(REGION_TYPES[self.jurisdiction].__contains__)
        faults = [
            ("REGION_TYPE", "Invalid values found in REGION_TYPE", ~kind.where(ALL_TYPES.__contains__)),
            ("COUNT", "Invalid values found in COUNT", ~count.where(lambda text: bool(WHOLE.fullmatch(text)))),
            ("ITERATION_CODE", "iterations that are unknown or of level 0", ~code.where(known.__contains__)),
            ("ITERATION_CODE", "groups that appear twice", pd.Series(group).duplicated()),
        ]
        number = np.full(len(table), ELSEWHERE, np.int64)
        for region_type in REGION_TYPES[self.jurisdiction]:
            of_type = kind.where(region_type.__eq__)
            known_ids = {one: place for place, one in enumerate(self.geography.region_ids[region_type])}
            numbers = np.full(len(region.values), NOWHERE, np.int64)
            for value in np.flatnonzero(np.bincount(region.numbers[of_type])).tolist():
                one = region.values[value]
                numbers[value] = known_ids[one] if one in known_ids else self._outside(region_type, one)
            number[of_type] = numbers[region.numbers[of_type]]
        faults.append(("REGION_ID", f"regions that {GRF_FILE} does not have", here & (number == NOWHERE)))
        findings = [each for column, rule, bad in faults for each in check_mask(file, table, column, rule, bad)]
        if findings:
            return {}, findings
        left_out[OTHER_JURISDICTION] += int((~here).sum())
        left_out[OTHER_STATE] += int((here & (number == ELSEWHERE)).sum())
        totals = count.where(int, np.int64)
        found: Groups = {}
        for region_type in REGION_TYPES[self.jurisdiction]:
            rows = np.flatnonzero(kind.where(region_type.__eq__) & (number >= 0))
            tabulated = np.zeros(len(rows), bool)
            for level in (Level(region_type, iteration_level) for iteration_level in ITERATION_LEVELS):
                codes = pd.Index(load_domain(self.run, level).iteration_codes)
                place = codes.get_indexer(pd.Index(code.values))[code.numbers[rows]]  # -1 for none
                mine = place >= 0
                tabulated |= mine
                if level in levels:
                    found[level] = number[rows[mine]] * len(codes) + place[mine], totals[rows[mine]]
                else:
                    left_out[NO_BUDGET] += int(mine.sum())
            left_out[NOT_TABULATED] += int((~tabulated).sum())
        return found, []

    def _outside(self, region_type: str, region_id: str) -> int:
        """Return ELSEWHERE for a region of a state that the run does not cover, NOWHERE for one that cannot exist."""
        bare = region_type.removeprefix("PR-")
        if not is_region(bare, region_id):
            return NOWHERE
        if bare == "AIANNH":
            return ELSEWHERE if region_id in self._areas else NOWHERE
        state, of_jurisdiction = region_id[:2], STATES_US if self.jurisdiction == "us" else STATES_PR
        states = self.run.parameters.configuration.states(self.jurisdiction)
        no_place = bare == "PLACE" and region_id.endswith("99999")
        return ELSEWHERE if state in of_jurisdiction and state not in states and not no_place else NOWHERE

    @cached_property
    def _areas(self) -> set[str]:
        """All AIANNH areas of GRF-C, in any state."""
        path = f"{self.data.rstrip('/')}/{GRF_FILE}"
        table, _ = read_table(path, GRF_FILE, ("AIANNHCE",), more=True, dictionary=True)
        return set() if table is None else {*EncodedColumn(table["AIANNHCE"]).values} - {"9999"}
