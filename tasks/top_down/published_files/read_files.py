"""Prepare a run's directory for an estimate of published files: spine, invariants, answers and shares.

Every fault is a finding with its file and geocode; where there is one, nothing is estimated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from spine.geography import NO_AIANNH, NO_COUSUB, NO_PLACE, BadGeography, Geography, IntArray, checked, gq_pattern
from spine.hierarchy import Spine, common_denominator
from spine.settings import Jurisdiction, settings_for
from spine.top_down.histogram import HOUSEHOLD
from tasks.inputs.blocks.files import input_digests
from tasks.inputs.blocks.geography import read_geography
from tasks.inputs.files import digest_file
from tasks.inputs.findings import Finding, gather, has_errors, write_findings
from tasks.lifecycle.digests import file_digest
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import load_object, save_arrays, save_object
from tasks.lifecycle.workers import Workers
from tasks.top_down.input.geography import codes_folder, save_spine
from tasks.top_down.published_files.answers import INVENTORY, Kind, level_codes, map_answers, measured_total, shares_of
from tasks.top_down.published_files.check_spine import check_spine
from tasks.top_down.published_files.faults import Faults
from tasks.top_down.published_files.geounits import Geounits, read_geounits, read_national_total
from tasks.top_down.published_files.inventory import LEVELS, Inventory
from tasks.top_down.published_files.shares import Kinds, Shares, find_shares
from tasks.top_down.published_files.totals import declared_totals
from tasks.top_down.run import Blocks, TopDownRun, Validated
from tasks.top_down.run_plan import ENGINE, US, Design, ProductName, file_name

SOURCE, TOTALS, GEOGRAPHY = "prepared/source", "prepared/totals", "prepared/geography"
PRIVACY = "as published by the Census Bureau; das-flows measured nothing and spent nothing"
WRONG_TOTAL = 10  # standard deviations between a declared and a measured population that no noise explains
OF_2010 = 8  # digits of a county in the files of the 2010 demonstration


@dataclass(frozen=True)
class Request:
    """What a user adds to the files. totals: a file of declared populations; None for those of 2020.

    geography: block tables with places, county subdivisions and AIAN areas. changes: fields of the design. check_spine:
    whether the files' geocodes are compared with those of a spine made of the geography.
    """

    totals: str | None
    geography: str | None
    changes: Mapping[str, Any]
    check_spine: bool = False


class StateRead(NamedTuple):
    """A state's geounits as read: findings, the length of the geocodes by product and level, and its housing units."""

    findings: list[Finding]
    widths: dict[ProductName, tuple[int, ...]]
    housing_units: int


def read_files(run: TopDownRun, workers: Workers, inventory: Inventory, notes: Faults, request: Request) -> None:
    """Save everything that an estimate needs of the published files of a jurisdiction.

    Raises
    ------
    Refused
        where a finding is an error; the findings are in the run's findings.json.
    """
    findings = notes.findings()
    _refuse(run, findings)
    states, products = inventory.states, inventory.products
    jurisdiction: Jurisdiction = "us" if inventory.jurisdictions == ("us",) else "pr"
    totals, source, faults = declared_totals(request.totals)
    findings += faults
    missing = [state for state in states if int(state) not in totals]
    if missing or not states:
        findings.append(
            Finding(source, f"no declared population of state {', '.join(missing)}" if states else "no state")
        )
    _refuse(run, findings)
    save_object(run / INVENTORY, inventory)
    save_object(run / TOTALS, totals)
    if request.geography:
        _save_geography(run, request.geography, jurisdiction, states)
    read = workers.map("read geounits", run, read_state, [(state,) for state in states])
    findings += [finding for state in read for finding in state.findings]
    findings += _check_widths(products, states, read, request)
    _refuse(run, findings)
    nation = _has_nation(inventory, states, totals, read, findings)
    shares, found = _read_answers(run, workers, inventory, nation, jurisdiction)
    findings += found
    _refuse(run, findings)
    settings = {product: settings_for(ENGINE[product], jurisdiction) for product in products}
    allocations = {product: shares[product].allocation for product in products}
    options = {"nation": nation, "measurements": False, **request.changes}
    save_object(run / "prepared/design", Design(jurisdiction, "optimized", products, settings, allocations, **options))
    pairs = [(product, state) for product in products for state in states]
    findings += [finding for part in workers.map("shares", run, give_shares, pairs) for finding in part]
    if "persons" in products:
        findings += [finding for state in states for finding in _check_total(run, state, totals[int(state)], source)]
    _refuse(run, findings)
    digests = workers.map("digests", run, digest_part, [(str(part.path),) for part in inventory.parts])
    public = {part.name: digest for part, digest in zip(inventory.parts, digests, strict=True)}
    public |= {file_name(request.totals): digest_file(request.totals)} if request.totals else {}
    public |= input_digests(request.geography) if request.geography else {}
    facts: dict[str, Any] = {
        "privacy": PRIVACY,
        "state_totals": {state: totals[int(state)] for state in states},
        "state_totals_from": source,
        "us_level_used": nation,
        "design": {
            product: shares[product].allocation.source + ("" if shares[product].known else ", no known design")
            for product in products
        },
        "notes": [f"{finding.file}: {finding.rule}".removeprefix(": ") for finding in gather(findings)],
    }
    save_object(run / "prepared/validated", Validated("", (), None, states, nation, public))
    if request.check_spine:
        facts["blocks_with_the_geocode_of_our_spine"] = check_spine(run, workers)
    save_object(run / SOURCE, facts)


def _refuse(run: TopDownRun, findings: Iterable[Finding]) -> None:
    found = gather(findings)
    if has_errors(found):
        write_findings(run / "findings.json", found)
        first = next(finding for finding in found if not finding.warning)
        raise Refused(f"the published files do not pass: {first.file}: {first.rule}".replace(": :", ":"))


def digest_part(_run: TopDownRun, path: str) -> str:
    """Return the digest of a file."""
    return file_digest(path)


def _save_geography(run: TopDownRun, source: str, jurisdiction: Jurisdiction, states: tuple[str, ...]) -> None:
    """Save the public geography of each state."""
    settings = settings_for("pl94-persons", jurisdiction, occupied_only=False)
    geography, _ = read_geography(source, settings, states=[int(state) for state in states])
    for state in states:
        save_object(run / f"{GEOGRAPHY}/{state}", geography.take(geography.state == int(state)))


def read_state(run: TopDownRun, state: str) -> StateRead:
    """Save the blocks of a state and, for each product, its geounits; return what is wrong with them."""
    inventory: Inventory = load_object(run / INVENTORY)
    faults = Faults()
    read = {product: read_geounits(inventory, product, state, faults) for product in inventory.products}
    found = {product: geounits for product, geounits in read.items() if geounits is not None}
    if len(found) < len(read):
        return StateRead(faults.findings(), {}, 0)
    _compare_products(found, state, faults)
    first = found[inventory.products[0]]
    public = np.sort(first.public)
    quarters = first.quarters[np.argsort(first.public)]
    totals = load_object(run / TOTALS)
    _check_declared(first, quarters, state, totals[int(state)], "persons" in found, faults)
    try:
        geography = _geography(run, state, public, quarters, faults)
    except BadGeography as error:
        faults.add("geography", str(error))
        return StateRead(faults.findings(), {}, 0)
    save_object(run / f"prepared/blocks/{state}", Blocks(geography, quarters, totals))
    for product, geounits in found.items():
        save_object(_geounits_path(run, product, state), geounits.spine(public))
        save_arrays(codes_folder(run, product, state), {str(n): codes for n, codes in enumerate(geounits.codes)})
    widths = {product: tuple(codes.shape[1] for codes in geounits.codes) for product, geounits in found.items()}
    return StateRead(faults.findings(), widths, int(quarters[:, HOUSEHOLD].sum()))


def _geounits_path(run: TopDownRun, product: ProductName, state: str) -> Any:
    return run / f"prepared/spine/{product}/{state}.geounits"


def _compare_products(found: Mapping[ProductName, Geounits], state: str, faults: Faults) -> None:
    """Find blocks that persons and units do not share, or whose housing units differ."""
    if len(found) < 2:
        return
    persons, units = found["persons"], found["units"]
    (p, p_order), (u, u_order) = ((each.public, np.argsort(each.public)) for each in (persons, units))
    for name, own, other in (("persons", p, u), ("units", u, p)):
        faults.add(
            f"{name}, State={state}", "a block that the other product lacks", _codes16(own[~np.isin(own, other)])
        )
    if np.array_equal(p[p_order], u[u_order]):
        differ = persons.quarters[p_order, HOUSEHOLD] != units.quarters[u_order, HOUSEHOLD]
        rule = "a block whose housing units differ between persons and units"
        faults.add(f"persons and units, State={state}", rule, _codes16(p[p_order][differ]))


def _codes16(public: IntArray) -> list[str]:
    return [f"{code:016d}" for code in public.tolist()]


def _check_declared(
    geounits: Geounits, quarters: IntArray, state: str, total: int, persons: bool, faults: Faults
) -> None:
    facilities = int(quarters[:, HOUSEHOLD + 1 :].sum())
    if total < facilities:
        faults.add(f"State={state}", f"a declared population of {total:,}, less than its {facilities:,} group quarters")
    if persons and geounits.totals is not None and int(geounits.totals.sum()) != total:
        own = int(geounits.totals.sum())
        faults.add(f"State={state}", f"the files declare a population of {own:,}, not {total:,}: give it with --totals")


def _geography(run: TopDownRun, state: str, public: IntArray, quarters: IntArray, faults: Faults) -> Geography:
    """Return the blocks with their areas; without a geography they are in none."""
    n = len(public)
    areas: dict[str, Any] = {
        "place": np.full(n, NO_PLACE, np.int32),
        "cousub": np.full(n, NO_COUSUB, np.int32),
        "aiannh": np.full(n, NO_AIANNH, np.int16),
    }
    path = run / f"{GEOGRAPHY}/{state}"
    if path.exists():
        known: Geography = load_object(path)
        row = np.minimum(np.searchsorted(known.geocode, public), max(len(known) - 1, 0))
        there = known.geocode[row] == public
        for name, column in areas.items():
            column[there] = getattr(known, name)[row[there]]
        if not there.all():
            faults.note(
                f"State={state}", f"{int((~there).sum()):,} blocks are not in the geography: they are in no area"
            )
    else:
        faults.note("", "without --geography there are no places, county subdivisions and AIAN areas")
    gq = gq_pattern([quarters[:, kind] > 0 for kind in range(1, quarters.shape[1])])
    return checked(Geography(public, areas["place"], areas["cousub"], areas["aiannh"], gq=gq))


def _check_widths(
    products: tuple[ProductName, ...], states: tuple[str, ...], read: list[StateRead], request: Request
) -> list[Finding]:
    """Find states whose geocodes are of another length; and files of 2010 without totals of 2010."""
    faults = Faults()
    for product in products:
        widths = {state: found.widths[product] for state, found in zip(states, read, strict=True) if found.widths}
        forms = sorted(set(widths.values()))
        for form in forms[1:]:
            other = next(state for state, width in widths.items() if width == form)
            first = next(state for state, width in widths.items() if width == forms[0])
            rule = f"geocodes of {form} digits by level, and of {forms[0]} in state {first}"
            faults.add(f"{product}, State={other}", rule)
        if forms and forms[0][LEVELS.index("County")] == OF_2010:
            faults.note(product, "geocodes of the form of the 2010 demonstration")
            if request.totals is None:
                faults.add(product, "these are measurements of 2010: give its populations with --totals")
    return faults.findings()


def _has_nation(
    inventory: Inventory,
    states: tuple[str, ...],
    totals: Mapping[int, int],
    read: list[StateRead],
    findings: list[Finding],
) -> bool:
    """Return whether the US level is used: where what the states declare adds up to what the US declares."""
    faults, used = Faults(), False
    if all(inventory.of(product, US, "DPQuery", US) for product in inventory.products):
        sums = {
            "persons": sum(totals[int(state)] for state in states),
            "units": sum(state.housing_units for state in read),
        }
        declared = {product: read_national_total(inventory, product, faults) for product in inventory.products}
        used = all(declared[product] == sums[product] for product in inventory.products)
        if not used:
            shown = ", ".join(
                f"{product} {sums[product]:,} of {'unknown' if total is None else f'{total:,}'}"
                for product, total in declared.items()
            )
            faults.note(US, f"the US level is left out: the states that are there declare {shown}")
    elif inventory.jurisdictions == ("us",):
        faults.note(US, "the US level is not there: the estimate begins with the states")
    findings += faults.findings()
    return used


def _read_answers(
    run: TopDownRun, workers: Workers, inventory: Inventory, nation: bool, jurisdiction: Jurisdiction
) -> tuple[dict[ProductName, Shares], list[Finding]]:
    """Map all answers into memory, and find the shares of each product."""
    calls = [
        (product, state, level)
        for product in inventory.products
        for level in reversed(LEVELS)
        for state in inventory.states
    ]
    calls += [(product, US, US) for product in inventory.products] * nation
    read: list[tuple[list[Finding], list[Kind]]] = workers.map("read answers", run, map_answers, calls)
    findings = [finding for found, _ in read for finding in found]
    if has_errors(findings):
        return {}, findings
    faults, shares = Faults(), {}
    for product in inventory.products:
        kinds = [
            Kinds(level, f"{product}, level {level}, state {state}", found)
            for (name, state, level), (_, found) in zip(calls, read, strict=True)
            if name == product
        ]
        if (found := find_shares(product, jurisdiction, kinds, faults)) is not None:
            shares[product] = found
            _, denominator = common_denominator(list(found.allocation.levels.values()))
            save_object(run / f"prepared/shares/{product}", (found, denominator))
    return shares, findings + faults.findings()


def give_shares(run: TopDownRun, product: ProductName, state: str) -> list[Finding]:
    """Save the spine of a state with its shares; find geounits that were not measured."""
    faults = Faults()
    shares: Shares
    shares, denominator = load_object(run / f"prepared/shares/{product}")
    bare: Spine = load_object(_geounits_path(run, product, state))
    rows = {
        level: {variances: int(share * denominator) for variances, share in shares.of.get(level, {}).items()}
        for level in bare.levels
    }
    numerators = tuple(shares_of(run, product, state, level, rows[level]) for level in bare.levels)
    spine = replace(bare, shares=numerators, denominator=denominator)
    codes = [level_codes(run, product, state, level) for level in spine.levels]
    for level in range(len(spine.levels)):
        siblings = spine.children(level - 1)[spine.parents[level]] if level else np.full(len(codes[0]), 2)
        unmeasured = (spine.shares[level] == 0) & (siblings > 1)
        place = f"{product}, level {spine.levels[level]}, state {state}"
        faults.add(place, "no answer for a geounit that has siblings", codes[level][unmeasured].tolist())
    if shares.known:
        path = sum(spine.shares[level][spine.geounit_of_block(level)] for level in range(len(spine.levels)))
        expected = int((1 - shares.allocation.levels.get(US, 0)) * denominator)
        rule = "a block on whose path the shares do not add up to those of all levels"
        faults.add(f"{product}, state {state}", rule, codes[-1][path != expected].tolist())
    save_spine(run, product, state, spine)
    return faults.findings()


def _check_total(run: TopDownRun, state: str, total: int, source: str) -> list[Finding]:
    """Find a declared population that the noisy totals of the state's parts contradict."""
    measured = measured_total(run, state)
    if measured is None or abs(measured[0] - total) <= WRONG_TOTAL * measured[1] ** 0.5:
        return []
    rule = (
        f"declares {total:,} persons in state {state}; measured are {measured[0]:,}: give the right ones with --totals"
    )
    return [Finding(source, rule)]
