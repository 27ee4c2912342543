"""Prepare a run's directory for an estimate of published files: spine, invariants, answers and shares.

Every fault is a finding with its file and geocode; after a fault, nothing is estimated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from spine.geocodes import geocodes, largest_numbers
from spine.hierarchy import Spine, common_denominator
from spine.production import allocation_for
from spine.settings import Jurisdiction, settings_for
from tasks.errors import Refused
from tasks.geography.blocks.files import input_digests
from tasks.geography.blocks.geography import read_geography
from tasks.lifecycle.files import load_object, save_object
from tasks.lifecycle.run_directory import VALIDATED
from tasks.lifecycle.workers import Workers
from tasks.records.files import digest_file, file_name
from tasks.records.findings import Finding, gather, has_errors, keep_findings
from tasks.releases.digests import file_digest
from tasks.top_down.blocks import make_spine, save_spine
from tasks.top_down.input.public_input import read_totals
from tasks.top_down.published.nmf.census_2020 import SOURCE, totals_of_2020
from tasks.top_down.published.nmf.geounits import read_national_total
from tasks.top_down.published.nmf.inventory import Faults, Inventory
from tasks.top_down.published.nmf.shares import Shares, find_shares
from tasks.top_down.published.nmf.source import (
    GEOGRAPHY,
    OF_2010,
    OPENED,
    FileRequest,
    NmfSource,
    Opened,
    StateRead,
    geounits_path,
    level_codes,
    measured_total,
    read_state,
    shares_of,
)
from tasks.top_down.published.source import ORIGIN, read_level
from tasks.top_down.release.nmf_layout import LEVELS, as_codes
from tasks.top_down.run_plan import SCHEMAS, US, Design
from tasks.top_down.source import PLANNED, Branch, Origin, Validated

PRIVACY = "as published by the Census Bureau; das-flows measured nothing and spent nothing"
OF_A_RUN = "as measured by run {run} of das-flows; nothing was measured again and nothing spent"
Compared: TypeAlias = dict[str, tuple[int, int]]  # by county: blocks with the same geocode, and all
WRONG_TOTAL = 10  # standard deviations between a declared and a measured population; noise cannot explain more


class FileReading(NamedTuple):
    """The inputs of reading one jurisdiction's files, and the findings so far.

    changes: fields of the design to replace, such as the estimator.
    """

    source: NmfSource
    workers: Workers
    inventory: Inventory
    request: FileRequest
    changes: Mapping[str, Any]
    findings: list[Finding]

    @property
    def jurisdiction(self) -> Jurisdiction:
        """The jurisdiction of the files."""
        return "us" if self.inventory.jurisdictions == ("us",) else "pr"

    @property
    def branches(self) -> list[tuple[Branch]]:
        """Every state of every product, as arguments."""
        return [(Branch(product, state),) for product in self.inventory.products for state in self.inventory.states]

    def add(self, findings: Iterable[Finding]) -> None:
        """Add findings. Raises Refused if one is an error, after saving all in the run's findings.json."""
        self.findings.extend(findings)
        if has_errors(self.findings):
            keep_findings(self.source, self.findings)
            first = next(finding for finding in gather(self.findings) if not finding.warning)
            raise Refused(f"the published files do not pass: {first.file}: {first.rule}".replace(": :", ":"))


def read_files(reading: FileReading, notes: Faults) -> None:
    """Read the files of a jurisdiction into a directory: spines, invariants, answers and shares.

    Raises Refused if a finding is an error; the findings are in the directory's findings.json.
    """
    source, workers, inventory, request, *_ = reading
    reading.add(notes.findings())
    totals, declared_by = _read_totals(reading)
    read = _read_states(reading)
    nation = _has_nation(reading, totals, read)
    shares = _read_answers(reading, nation)
    _save_design(reading, shares, nation)
    findings = workers.map("shares", source, give_shares, reading.branches)
    reading.add([*chain.from_iterable(findings), *_check_totals(reading, totals, declared_by)])
    footer = inventory.written_by
    validated = Validated("", (), footer and footer.mark, inventory.states, nation, _digests(reading))
    save_object(source / VALIDATED, validated)
    facts: dict[str, Any] = {
        "privacy": PRIVACY if footer is None else OF_A_RUN.format(run=footer.run),
        "measured_by": footer and footer.run,  # a run of das-flows, or None for the Census Bureau
        "state_totals": {state: totals[int(state)] for state in inventory.states},
        "state_totals_from": declared_by,
        "us_level_used": nation,
        "as_tabulated": {f"{old:016d}": f"{new:016d}" for state in read for old, new in state.moved},
        "design": {
            product: found.allocation.source + ("" if found.known else ", no known design")
            for product, found in shares.items()
        },
        "notes": [f"{finding.file}: {finding.rule}".removeprefix(": ") for finding in gather(reading.findings)],
    }
    if request.check_spine:
        facts["blocks_with_the_geocode_of_our_spine"] = _check_spine(reading)
    save_object(source / ORIGIN, Origin(footer and footer.run, facts))


def _read_totals(reading: FileReading) -> tuple[dict[int, int], str]:
    """Save the inputs, with the declared populations; return these by state code, and their source.

    The source is a file `state,pop`, else the declarations of the das-flows run that wrote the files, else the census
    of 2020.
    """
    states, path, footer = reading.inventory.states, reading.request.totals, reading.inventory.written_by
    totals, declared_by, faults = totals_of_2020(), SOURCE, list[Finding]()
    if path is not None:
        (totals, faults), declared_by = read_totals(path), file_name(path)
    elif footer is not None:
        totals, declared_by = footer.totals, f"run {footer.run}"
    missing = [state for state in states if int(state) not in totals]
    if missing or not states:
        rule = f"there is no declared population of state {', '.join(missing)}" if states else "no state"
        faults = [*faults, Finding(declared_by, rule)]
    reading.add(faults)
    save_object(reading.source / OPENED, Opened(reading.inventory, reading.request, totals))
    return totals, declared_by


def _read_states(reading: FileReading) -> list[StateRead]:
    source, workers, inventory, request, *_ = reading
    if request.geography:
        settings = settings_for("pl94-persons", reading.jurisdiction, occupied_only=False)
        geography, _ = read_geography(request.geography, settings, states=[*map(int, inventory.states)])
        for state in inventory.states:
            save_object(source / f"{GEOGRAPHY}/{state}", geography.take(geography.state == int(state)))
    read = workers.map("read geounits", source, read_state, [(state,) for state in inventory.states])
    findings = [finding for state in read for finding in state.findings]
    reading.add(findings + _check_widths(reading, read))
    return read


def _save_design(reading: FileReading, shares: Mapping[str, Shares], nation: bool) -> None:
    products = reading.inventory.products
    settings = {product: settings_for(SCHEMAS[product].name, reading.jurisdiction) for product in products}
    allocations = {product: shares[product].allocation for product in products}
    options = {"nation": nation, "measurements": "none", **reading.changes}
    design = Design(reading.jurisdiction, "optimized", products, settings, allocations, **options)
    save_object(reading.source / PLANNED, design)


def _digests(reading: FileReading) -> dict[str, str]:
    """Return the digests of all files that are read, by name."""
    source, workers, inventory, request, *_ = reading
    digests = workers.map("digests", source, digest_part, [(str(part.path),) for part in inventory.parts])
    public = {part.name: digest for part, digest in zip(inventory.parts, digests, strict=True)}
    public |= {file_name(request.totals): digest_file(request.totals)} if request.totals else {}
    return public | (input_digests(request.geography) if request.geography else {})


def digest_part(_source: NmfSource, path: str) -> str:
    """Return the digest of a file."""
    return file_digest(path)


def _check_widths(reading: FileReading, read: list[StateRead]) -> list[Finding]:
    """Report states whose geocodes have another length, and files of 2010 without totals of 2010."""
    faults, states = Faults(), reading.inventory.states
    for product in reading.inventory.products:
        widths = {state: found.widths[product] for state, found in zip(states, read, strict=True) if found.widths}
        forms = sorted(set(widths.values()))
        for form in forms[1:]:
            other = next(state for state, width in widths.items() if width == form)
            first = next(state for state, width in widths.items() if width == forms[0])
            rule = f"geocodes have {form} digits by level, but {forms[0]} in state {first}"
            faults.add(f"{product}, State={other}", rule)
        if forms and forms[0][LEVELS.index("County")] == OF_2010:
            faults.note(product, "geocodes of the form of the 2010 demonstration")
            if reading.request.totals is None:
                faults.add(product, "these are measurements of 2010: give its populations with --state-totals")
    return faults.findings()


def _has_nation(reading: FileReading, totals: Mapping[int, int], read: list[StateRead]) -> bool:
    """Return whether the US level is used: the states' declared totals must sum to that of the US."""
    inventory = reading.inventory
    faults, used = Faults(), False
    if all(inventory.of(product, US, "DPQuery", US) for product in inventory.products):
        sums = {
            "persons": sum(totals[int(state)] for state in inventory.states),
            "units": sum(state.housing_units for state in read),
        }
        declared = {product: read_national_total(inventory, product, faults) for product in inventory.products}
        used = all(declared[product] == sums[product] for product in inventory.products)
        if not used:
            shown = ", ".join(
                f"{product} {sums[product]:,} of {'unknown' if total is None else f'{total:,}'}"
                for product, total in declared.items()
            )
            faults.note(US, f"the US level is left out: the present states declare {shown}")
    elif inventory.jurisdictions == ("us",):
        faults.note(US, "the US level is missing: the estimate begins with the states")
    reading.add(faults.findings())
    return used


def _read_answers(reading: FileReading, nation: bool) -> dict[str, Shares]:
    """Map all answers into memory, and infer the shares of each product."""
    source, workers, inventory, *_ = reading
    calls = [
        (Branch(product, state), level)
        for product in inventory.products
        for level in reversed(LEVELS)
        for state in inventory.states
    ]
    calls += [(Branch(product, US), US) for product in inventory.products] * nation
    read = workers.map("read answers", source, read_level, calls)
    reading.add(finding for found, _ in read for finding in found)
    faults, shares = Faults(), {}
    for product in inventory.products:
        own = [kinds for (branch, _), (_, kinds) in zip(calls, read, strict=True) if branch.product == product]
        kinds = [kind for kinds in own for kind in kinds]
        if (found := find_shares(product, reading.jurisdiction, nation, kinds, faults)) is not None:
            shares[product] = found
            _, denominator = common_denominator(list(found.allocation.levels.values()))
            save_object(source / f"prepared/shares/{product}", (found, denominator))
    reading.add(faults.findings())
    return shares


def give_shares(source: NmfSource, branch: Branch) -> list[Finding]:
    """Save the spine of a state with its shares; report geounits that were not measured."""
    faults = Faults()
    shares, denominator = load_object(source / f"prepared/shares/{branch.product}", tuple[Shares, int])
    bare = load_object(geounits_path(source, branch), Spine)
    numerators = [shares_of(source, branch, level, shares.of[level], denominator) for level in bare.levels]
    spine = replace(bare, shares=tuple(numerators), denominator=denominator)
    codes = [level_codes(source, branch, level) for level in spine.levels]
    for level in range(len(spine.levels)):
        siblings = spine.children(level - 1)[spine.parents[level]] if level else np.full(len(codes[0]), 2)
        unmeasured = (spine.shares[level] == 0) & (siblings > 1)
        place = f"{branch.product}, level {spine.levels[level]}, state {branch.name}"
        faults.add(place, "no answer for a geounit that has siblings", codes[level][unmeasured].tolist())
    if shares.known:
        path = sum(spine.shares[level][spine.geounit_of_block(level)] for level in range(len(spine.levels)))
        expected = int((1 - shares.allocation.levels.get(US, 0)) * denominator)
        rule = "a block with shares on its path that do not sum to those of all levels"
        faults.add(f"{branch.product}, state {branch.name}", rule, codes[-1][path != expected].tolist())
    save_spine(source, branch, spine)
    return faults.findings()


def _check_totals(reading: FileReading, totals: Mapping[int, int], declared_by: str) -> Iterator[Finding]:
    """Report declared populations that the noisy totals of the states' parts contradict."""
    for state in reading.inventory.states if "persons" in reading.inventory.products else ():
        total, measured = totals[int(state)], measured_total(reading.source, state)
        if measured is not None and abs(measured[0] - total) > WRONG_TOTAL * measured[1] ** 0.5:
            found = f"{total:,} persons in state {state}; measured are {measured[0]:,}"
            yield Finding(declared_by, f"declares {found}: give the correct ones with --state-totals")


def _check_spine(reading: FileReading) -> dict[str, Compared]:
    """Return, by product and county, the number of blocks with the geocode that das-flows gives, and of all."""
    found: dict[str, Compared] = {product: {} for product in reading.inventory.products}
    compared = reading.workers.map("check spine", reading.source, compare_geocodes, reading.branches)
    for (branch,), counties in zip(reading.branches, compared, strict=True):
        found[branch.product] |= counties
    return found


def compare_geocodes(source: NmfSource, branch: Branch) -> Compared:
    """Compare the geocodes of a state, whose spine is read, with those of a spine of its blocks."""
    geography, settings = source.state(branch.name).geography, source.design.settings[branch.product]
    design = replace(source.design, allocations={branch.product: allocation_for(settings)})
    spine = make_spine(geography, design, branch.product)
    largest = largest_numbers(spine, geography, settings)
    made = geocodes(spine, geography, settings, design.kind, largest)[-1]
    read = level_codes(source, branch, LEVELS[-1])[np.argsort(source.spine(branch).order)]
    same = read == as_codes(made)[np.argsort(spine.order)]
    county, at = np.unique(geography.county, return_inverse=True)
    equal, blocks = np.bincount(at, same).astype(int).tolist(), np.bincount(at).tolist()
    return {f"{code:05d}": pair for code, pair in zip(county.tolist(), zip(equal, blocks, strict=True), strict=True)}
