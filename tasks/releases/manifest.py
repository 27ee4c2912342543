"""Write and read the manifest of a release, and compare a folder with its manifest.

A manifest holds digests of public inputs, versions, the code, the noise of every query and the spend: no exact count of
persons.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from privacy.accounting.composition import Spend, read_spend, rounded_up
from privacy.accounting.journal import MarkName
from privacy.noise.exact import parse_exact
from privacy.noise.laws import DiscreteGaussian, Law, TwoSidedGeometric
from privacy.noise.sampler import check_law
from tasks.errors import Refused
from tasks.releases.digests import file_digests
from tasks.releases.received import NotOfRelease, entries, path_in, read_in, read_json

MANIFEST = "manifest.json"
FORMAT = 3  # format 1 had no such entry, and releases of format 2 no tables/
SIGNATURE = "manifest.sig"  # the publisher's, over the manifest's bytes
LIBRARIES = ("numpy", "scipy", "pyarrow", "python-flint", "cryptography")  # what stages compute and write with
UNNAMED = (MANIFEST, SIGNATURE)  # files of a release that its manifest does not name
GUARANTEE = (
    "The noise is drawn from a cipher (AES-256 in counter mode) keyed by a 256-bit secret of the operating system, "
    "which is deleted with this release: the guarantee is computational, against all who cannot break that cipher."
)
NOT_PRIVATE = "NOT PRIVATE: these are exact counts, made by das truth. Never publish them."
MARKS: dict[MarkName, str] = {
    "SYNTHETIC": "SYNTHETIC: made from synthetic data, which describes nobody. No budget was charged.",
    "PUBLIC": "PUBLIC: made from published microdata, so the truth of this run is itself a published, noisy database. "
    "No budget was charged.",
}


def marked(mark: MarkName | None, *, exact: bool = False) -> dict[str, str]:
    """Return the manifest's entries for exact counts and for the mark of a run's data, if any."""
    return ({"NOT_PRIVATE": NOT_PRIVATE} if exact else {}) | ({mark: MARKS[mark]} if mark else {})


def mark_facts(mark: MarkName | None) -> dict[str, bool]:
    """Return the mark of the data, for the description of measurements."""
    return {"synthetic": mark == "SYNTHETIC", **({"public": True} if mark == "PUBLIC" else {})}


def mark_in(facts: Mapping[str, Any]) -> MarkName | None:
    """Return the mark that `mark_facts` describes, from untrusted facts."""
    return "SYNTHETIC" if facts["synthetic"] is not False else "PUBLIC" if facts.get("public") is True else None


def mark_of(manifest: Mapping[str, Any]) -> MarkName | None:
    """Return the mark of a release's data, for which nothing was charged; None for other data."""
    return next((mark for mark in MARKS if mark in manifest), None)


def shown_marks(manifest: Mapping[str, Any]) -> list[str]:
    """Return the warnings that open every page of a release: not private, or made from marked data.

    In this program's words, since the manifest may come from anyone.
    """
    return [text for name, text in (("NOT_PRIVATE", NOT_PRIVATE), *MARKS.items()) if name in manifest]


def write_manifest(out: Path, manifest: dict[str, Any]) -> str:
    """Write OUT/manifest.json with the digests of all files in OUT; return the release's digest."""
    files = dict(zip(file_names(out), file_digests(released_files(out)), strict=True))
    whole = {"format": FORMAT, **manifest, "files": files}
    (out / MANIFEST).write_text(json.dumps(whole, indent=1, default=str) + "\n", "utf-8")
    return release_digest(out)


def spend_of(manifest: Mapping[str, Any]) -> Spend | None:
    """Return the spend of a release; None for exact counts and for others' measurements.

    Raises ValueError, TypeError or KeyError for anything else.
    """
    return read_spend(manifest["spent"]) if manifest["spent"] else None


def describe_spent(spent: Mapping[str, Any], mark: MarkName | None) -> str:
    """Return the spend that a manifest states, in one line, and that marked data was not charged."""
    spend = read_spend(spent)
    free = f", not charged: the data is {mark.lower()}" if mark else ""
    return f"{spend.measure} {rounded_up(spend.charged)}{free}"


def noise_law(law: Law) -> dict[str, str | float]:
    """Return the name, the exact parameter and the variance of a noise law."""
    return {"law": law.name, law.parameter_name: str(law.parameter), "variance": law.variance()}


def read_law(facts: Mapping[str, Any]) -> Law:
    """Return the law that `noise_law` describes. Raises ValueError for an invalid one."""
    kind = DiscreteGaussian if facts["law"] == DiscreteGaussian.name else TwoSidedGeometric
    law: Law = kind(parse_exact(facts[kind.parameter_name]))
    check_law(law)
    return law


def released_files(out: Path) -> list[Path]:
    """Return the regular files of a release except its manifest and the manifest's signature, sorted."""
    return sorted(out / name for name, regular in entries(out) if regular and name not in UNNAMED)


def file_names(out: Path) -> list[str]:
    """Return the names of the files of a release, as `released_files`."""
    return [str(path.relative_to(out)) for path in released_files(out)]


def release_digest(out: Path) -> str:
    """Return the digest of a release: its manifest's, which holds those of all files."""
    return sha256(read_in(out, MANIFEST)).hexdigest()


def is_whole(out: Path) -> bool:
    """Return whether a folder holds a manifest and every file that it names, unchanged."""
    try:
        named = read_any_manifest(out)["files"]
        return file_digests(path_in(out, name) for name in named) == [*named.values()]
    except NotOfRelease:
        return False


def check_not_exact(path: Path) -> None:
    """Refuse a file in a release of exact counts whose data has no mark: nothing made of it would be protected."""
    for folder in [folder for folder in path.resolve().parents if (folder / MANIFEST).exists()]:
        with suppress(NotOfRelease):
            manifest = read_any_manifest(folder)
            if "NOT_PRIVATE" in manifest and mark_of(manifest) is None:
                raise Refused(
                    f"{path} has exact counts of confidential records, made by das truth: nothing may be made of it"
                )


def drop_unnamed(out: Path) -> None:
    """Remove the files of a folder that its manifest does not name, such as those that a desktop leaves."""
    named = read_any_manifest(out)["files"]
    for name in [name for name, _ in entries(out) if name not in UNNAMED and name not in named]:
        (out / name).unlink()


def require_release(folder: Path) -> None:
    """Raise Refused unless a folder is a release; the message names the releases in it, or in a census's products."""
    try:
        is_release = (folder / MANIFEST).exists()
        depths = ("*",) if is_release else ("*", "*/*")
        found = [name.parent for depth in depths for name in folder.glob(f"{depth}/{MANIFEST}")]
        inside = sorted(str(each.relative_to(folder)) for each in found)
    except OSError as error:  # a name that no folder can have, or one that may not be read
        raise Refused(f"{folder}: {error.strerror}") from None
    if inside:
        raise Refused(f"{folder} holds releases but is not one itself; name one of them: {', '.join(inside)}")
    if not is_release:
        raise Refused(f"{folder} holds no {MANIFEST}: it is not a release")


def read_manifest(out: Path) -> dict[str, Any]:
    """Return the manifest of a release.

    Raises NotOfRelease without a manifest, or if it names no files; Refused for another format.
    """
    manifest = read_any_manifest(out)
    if (found := manifest.get("format", 1)) != FORMAT:
        age = "an earlier" if found in range(FORMAT) else "a later"
        raise Refused(f"{out / MANIFEST} was made by {age} version of das-flows: read the release with that version")
    return manifest


def read_any_manifest(out: Path) -> dict[str, Any]:
    """Return the manifest of a release in any format; `run` and `files` have the same form in all.

    A run that an earlier version sealed can thus be committed. Raises NotOfRelease if it names no files.
    """
    manifest = read_json(out, MANIFEST)
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict) or not all(isinstance(digest, str) for digest in files.values()):
        raise NotOfRelease(f"{MANIFEST} is not the manifest of a release: it has no digests of files")
    return dict(manifest)
