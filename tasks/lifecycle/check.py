"""Check a release received from anybody: its files, and the amounts that its manifest states as spent.

Everything is recomputed from the release alone; no ledger, no run directory and no data is read. A system adds its own
checks, of its sums and margins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privacy.accounting.conversions import epsilon
from tasks.lifecycle.digests import file_digest
from tasks.lifecycle.manifest import MANIFEST, parse_exact
from tasks.lifecycle.received import NotOfRelease, entries, path_in

ROUNDING = 1e-9  # a decimal in the manifest is a float of what is recomputed


@dataclass(frozen=True)
class Check:
    """One check: its subject, its extent, and the faults that it found."""

    what: str
    over: str
    faults: tuple[str, ...] = ()


def check_files(release: Path, manifest: Mapping[str, Any]) -> Check:
    """Compare the digest of every file with the manifest's, and all that is there with the files that it names."""
    named: dict[str, str] = manifest["files"]
    faults = [fault for name in sorted(named) if (fault := file_fault(release, name, named[name]))]
    there = sorted({name for name, _ in entries(release)} - {MANIFEST})
    faults += [f"{name} is not of this release" for name in there if name not in named]
    return Check("digests of all files", f"{len(named)} files", tuple(faults))


def file_fault(release: Path, name: str, digest: str) -> str | None:
    """Return how a file differs from the one that the manifest names; None where it does not."""
    try:
        return None if file_digest(path_in(release, name)) == digest else f"{name} was changed"
    except NotOfRelease as fault:
        return str(fault)
    except OSError as error:
        return f"{name} cannot be read: {error.strerror}"


def check_spent(spent: Mapping[str, Any]) -> Iterator[Check]:
    """Recompute each amount that was spent as a decimal, and, of rho, as epsilon at the manifest's delta."""
    for name, amount in _amounts(spent):
        exact, faults = parse_exact(amount[spent["unit"]]), []
        if not _close(float(exact), amount["decimal"]):
            faults.append(f"{name}: {exact} is not {amount['decimal']}")
        if "epsilon_at_delta" in amount:
            expected = epsilon(exact, spent["delta"]) if spent["unit"] == "rho" else float(exact)
            if not _close(expected, amount["epsilon_at_delta"]):
                faults.append(f"{name}: epsilon is {expected}, not {amount['epsilon_at_delta']}")
        yield Check(f"spent, {name}", f"{spent['unit']} {float(exact):g}", tuple(faults))


def check_same(what: str, over: str, expected: Any, stated: Any) -> Check:
    """Compare a recomputed value with the manifest's."""
    return Check(what, over, () if expected == stated else (f"it is {expected}, not {stated}",))


def _amounts(spent: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for relation in ("unbounded", "bounded"):
        if relation in spent:
            yield relation, spent[relation]
    yield from spent.get("products", {}).items()


def _close(stated: float, other: float) -> bool:
    return abs(stated - other) <= ROUNDING * max(1.0, abs(stated))
