"""Check a release that may come from anyone: its files, and the amounts that its manifest states as spent.

Everything is recomputed from the release alone, without ledger, run directory or data. A system adds checks of its sums
and margins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from privacy.accounting.composition import NOT_COVERED, read_spend
from privacy.accounting.ledger import Examined
from privacy.accounting.signatures import is_signed
from privacy.accounting.states import EVERYWHERE, listed
from tasks.releases.digests import file_digest
from tasks.releases.manifest import MANIFEST, SIGNATURE, UNNAMED, mark_of, read_manifest, release_digest
from tasks.releases.received import NotOfRelease, entries, path_in, read_in
from tasks.releases.signature import read_publisher

DIGEST = re.compile("[0-9a-f]{64}")
ROUNDING = 1e-9  # a decimal in the manifest is a rounded float


@dataclass(frozen=True)
class Check:
    """One check: its subject, its extent, and the faults that it found."""

    what: str
    over: str
    faults: tuple[str, ...] = ()

    @property
    def first_faults(self) -> str:
        """The first five faults as one text, with a mark if there are more."""
        return "; ".join((*self.faults[:5], *["…"] * (len(self.faults) > 5)))


@dataclass(frozen=True)
class NotChecked:
    """A part of a release that its files cannot prove right, and why; a signature vouches for it.

    part: a statement, as `products.persons.solved`, or a part of a table, as `t1/*: counts`.
    """

    faults: ClassVar[tuple[str, ...]] = ()

    part: str
    why: str


def check_files(release: Path, manifest: Mapping[str, Any]) -> Check:
    """Compare the digest of every file with the manifest's, and the files of the folder with those that it names."""
    named: dict[str, str] = manifest["files"]
    faults = [fault for name in sorted(named) if (fault := file_fault(release, name, named[name]))]
    there = sorted(name for name, regular in entries(release) if not (regular and name in UNNAMED))
    faults += [f"{name} does not belong to this release" for name in there if name not in named]
    return Check("digests of all files", f"{len(named)} files", tuple(faults))


def file_fault(release: Path, name: str, digest: str) -> str | None:
    """Return how a file differs from the one that the manifest names, or None."""
    try:
        return None if file_digest(path_in(release, name)) == digest else f"{name} was changed"
    except NotOfRelease as fault:
        return str(fault)
    except OSError as error:
        return f"{name} cannot be read: {error.strerror}"


def check_spent(spent: Mapping[str, Any]) -> Iterator[Check]:
    """Recompute the decimals of each amount that was spent, and its epsilon at the manifest's delta."""
    spend = read_spend(spent)
    again = spend.as_json(spent["delta"])
    for what, ours, stated in (
        ("what was charged", again["charged"], spent["charged"]),
        *((each["sentence"], each, of) for each, of in zip(again["relations"], spent["relations"], strict=True)),
    ):
        numbers = {name: value for name, value in ours.items() if isinstance(value, float)}
        wrong = [name for name, value in numbers.items() if not is_close(value, stated[name])]
        faults = [f"{name} is {numbers[name]}, not {stated[name]}" for name in wrong]
        yield Check(f"spent, {what}", f"{spend.measure} {ours['exact']}" if numbers else NOT_COVERED, tuple(faults))


def check_made_by(manifest: Mapping[str, Any]) -> Check:
    """Check that the manifest names its code and, where budget was charged, the head of the ledger's journal."""
    code, charged = manifest.get("code"), bool(manifest["spent"]) and not mark_of(manifest)
    named = code is not None and DIGEST.fullmatch(code["digest"])
    faults = [] if named else ["the code is not named"]
    if charged and not DIGEST.fullmatch(manifest.get("journal", "")):
        faults.append("the head of the ledger's journal is not named")
    if not charged and "journal" in manifest:
        faults.append("it names a journal, but charged nothing")
    return Check("code", str(code["version"])[:40] if code else "", tuple(faults))


def check_signature(release: Path, publisher: Path) -> Check:
    """Check the manifest's signature by a publisher's public key. Raises Refused if the file is not such a key."""
    what, key = "signature", read_publisher(publisher)
    try:
        signature = read_in(release, SIGNATURE)[:1000].decode("ascii", "replace").strip()
    except NotOfRelease as fault:
        return Check(what, str(publisher), (f"the release is not signed: {fault}",))
    signed = is_signed(key, read_in(release, MANIFEST), signature)
    return Check(what, str(publisher), () if signed else ("the signature is by another key, or of another manifest",))


def check_charge(release: Path, examined: Examined) -> Check:
    """Compare a release with its row of a ledger: digest, amount, states, and the journal's head at the reservation."""
    manifest = read_manifest(release)
    run, spent = manifest["run"], manifest["spent"]
    what = f"release {release}"
    mark = mark_of(manifest)
    if mark or not spent:
        known = mark is None or examined.books.marked.get(run, ("", None))[1] == mark
        lacking = f"run {run} is not in the ledger as {str(mark).lower()}"
        return Check(what, "nothing was charged", () if known else (lacking,))
    row = examined.rows.get(run)
    if row is None:
        return Check(what, "", (f"run {run} has no row: the ledger is older than the release, or another",))
    account = examined.books.accounts[row.account]
    stated = {
        "status": "released",
        "release_digest": release_digest(release),
        "amount": read_spend(spent).charged_in(account.definition),
        "states": tuple(sorted(_charged(manifest, row.states))),
        "journal": manifest.get("journal", ""),
    }
    wrong = [name.replace("_", " ") for name in stated if stated[name] != getattr(row, name)]
    faults = [f"its {name} {'are' if name == 'states' else 'is'} not the row's" for name in wrong]
    if examined.books.spends.get(run, read_spend(spent)) != read_spend(spent):
        faults.append("its neighbour relations differ from the reserved ones")
    over = f"run {run}, account {row.account}, {account.amount(row.amount)}"
    return Check(what, f"{over}, states {listed(row.states)}", tuple(faults))


def _charged(manifest: Mapping[str, Any], of_row: Sequence[str]) -> Sequence[str]:
    """Return the states that a release says were charged. An empty list means everywhere; no list, the row's states."""
    stated: Sequence[str] | None = manifest.get("states", manifest.get("geography", {}).get("states"))
    return of_row if stated is None else stated or EVERYWHERE


def check_same(what: str, over: str, expected: Any, stated: Any) -> Check:
    """Compare a recomputed value with the manifest's."""
    return Check(what, over, () if expected == stated else (f"it is {expected}, not {stated}",))


def is_close(stated: float, other: float) -> bool:
    """Return whether two decimals differ by no more than the rounding of one."""
    return abs(stated - other) <= ROUNDING * abs(stated)
