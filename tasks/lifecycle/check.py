"""Checks of a release that somebody was sent: its files, and what its manifest says was spent.

Everything is recomputed from the release alone; no ledger, no run directory and no data is read. A system adds its own
checks, of its sums and margins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from privacy.accounting.conversions import epsilon
from tasks.lifecycle.digests import file_digest
from tasks.lifecycle.manifest import parse_exact, released_files

ROUNDING = 1e-9  # a decimal in the manifest is a float of what is recomputed


@dataclass(frozen=True)
class Check:
    """What was checked, over how much of it, and what was found to be wrong; nothing where all is as it says."""

    what: str
    over: str
    faults: tuple[str, ...] = ()


def check_files(release: Path, manifest: Mapping[str, Any]) -> Check:
    """Compare the digest of every file with the manifest's, and the files that are there with those that it names."""
    named: dict[str, str] = manifest["files"]
    there = {str(path.relative_to(release)) for path in released_files(release)}
    outside = [name for name in named if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts]
    missing = sorted(named.keys() - there - set(outside))
    changed = sorted(name for name in named.keys() & there if file_digest(release / name) != named[name])
    faults = [f"{name} lies outside of the release" for name in outside]
    faults += [f"{name} is missing" for name in missing] + [f"{name} was changed" for name in changed]
    faults += [f"{name} is not of this release" for name in sorted(there - named.keys())]
    return Check("digests of all files", f"{len(named)} files", tuple(faults))


def check_spent(told: Mapping[str, Any]) -> Iterator[Check]:
    """Recompute each amount that was spent as a decimal, and, of rho, as epsilon at the manifest's delta."""
    for name, amount in _amounts(told):
        exact, faults = parse_exact(amount[told["unit"]]), []
        if not _close(float(exact), amount["decimal"]):
            faults.append(f"{name}: {exact} is not {amount['decimal']}")
        if "epsilon_at_delta" in amount:
            expected = epsilon(exact, told["delta"]) if told["unit"] == "rho" else float(exact)
            if not _close(expected, amount["epsilon_at_delta"]):
                faults.append(f"{name}: epsilon is {expected}, not {amount['epsilon_at_delta']}")
        yield Check(f"spent, {name}", f"{told['unit']} {float(exact):g}", tuple(faults))


def check_same(what: str, over: str, expected: Any, told: Any) -> Check:
    """Compare what was recomputed with what the manifest tells."""
    return Check(what, over, () if expected == told else (f"it is {expected}, not {told}",))


def _amounts(told: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for relation in ("unbounded", "bounded"):
        if relation in told:
            yield relation, told[relation]
    yield from told.get("products", {}).items()


def _close(stated: float, other: float) -> bool:
    return abs(stated - other) <= ROUNDING * max(1.0, abs(stated))
