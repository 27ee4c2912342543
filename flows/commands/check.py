"""`das check`: compare a release with its manifest."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flows.execution.systems import kind_of_release
from flows.reports.terminal import show
from tasks.errors import Refused
from tasks.lifecycle.process import use_kernels
from tasks.lifecycle.run_directory import state_home
from tasks.releases.check import Check, NotChecked, check_files, check_made_by, check_signature, check_spent
from tasks.releases.manifest import MANIFEST, SIGNATURE, read_manifest, release_digest, require_release, shown_marks
from tasks.releases.received import NotOfRelease, reason_of
from tasks.releases.tidy_rows import check_tidy


def check(
    release: Annotated[
        Path, typer.Argument(metavar="RELEASE", help="The folder of a release, which holds manifest.json.")
    ],
    publisher: Annotated[
        Path | None, typer.Option(help="Check the signature by this public key of the publisher (Ed25519, PEM).")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List every check, not only those that found a fault.")] = False,
) -> None:
    """Check a release from its files alone; exit with 1 if it does not agree with its manifest.

    Its system says what a release must state and hold, given the configuration in the manifest: the spend, the law of
    every query, margins of error, keys of tables and sums are computed again. Facts that nothing in the release shows
    are listed as not checked. Whoever can change the files can change the manifest too: compare the digest that is
    shown with the publisher's or, if the release is signed, give the publisher's key. If the release has exact counts,
    or is of synthetic or public data, that is printed too: agreement with its manifest does not make it fit to publish.

    **Example:** `das check out/us`
    """
    require_release(release)
    try:
        manifest = read_manifest(release)
        found = [*_checks(release, manifest), *_signature(release, publisher)]
        done = [each for each in found if isinstance(each, Check)]
        unchecked = [each for each in found if isinstance(each, NotChecked)]
        stated = {name: manifest[name] for name in ("release", "spent")}
    except NotOfRelease as fault:
        raise Refused(f"{release}: {fault}") from None
    except Refused:
        raise
    except Exception as error:  # the manifest and all files are untrusted
        raise Refused(f"{release} cannot be checked by its {MANIFEST}: {reason_of(error)}") from error
    facts = {
        **stated,
        "digest": release_digest(release),
        "marks": shown_marks(manifest),
        "checks": [{"check": each.what, "over": each.over, "faults": list(each.faults)} for each in done],
        "not_checked": [{"part": each.part, "why": each.why} for each in unchecked],
    }
    faults, whole = sum(bool(each.faults) for each in done), not done[0].faults
    signed = f", and {publisher} has signed it" if publisher else ""
    verdict = f"{release} agrees with its manifest: none of {len(done)} checks found a fault{signed}"
    shown = done if every else [each for each in done if each.faults]
    show(facts, lambda: _rendered(facts, shown, "" if faults else verdict, unchecked))
    if faults:
        rest = "" if whole else "; tables are not checked until the files are the release's own"
        raise Refused(f"{release} does not agree with its manifest: {faults} of {len(done)} checks found a fault{rest}")


def _signature(release: Path, publisher: Path | None) -> Iterator[Check | NotChecked]:
    if publisher:
        yield check_signature(release, publisher)
    elif os.path.lexists(release / SIGNATURE):
        yield NotChecked(SIGNATURE, "give the publisher's key by --publisher")


def _checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check | NotChecked]:
    from flows.execution.census_plan import PAGE
    from tasks.geography.names import NAMES
    from tasks.geography.points import POINTS
    from tasks.releases.check_tables import check_forms, check_values
    from tasks.releases.report import REPORT, check_report
    from tasks.releases.statements import check_statements, common

    files = check_files(release, manifest)
    yield files
    yield check_made_by(manifest)
    if manifest["spent"]:
        yield from check_spent(manifest["spent"])
    if REPORT in manifest["files"]:
        if manifest["spent"]:
            yield check_report(release, manifest)
        yield NotChecked(f"{REPORT}: words", "of the page only the figures of the spend are compared")
    page = Path(os.path.abspath(release)).parent.parent / PAGE
    if os.path.lexists(page):
        yield NotChecked(str(page), "no manifest names this page; if it is a census's, das census run writes it again")
    if not files.faults:  # otherwise its tables may hold anything
        kind = kind_of_release(manifest["release"])
        if kind is None:
            raise KeyError(manifest["release"])
        description = kind.part("description")(manifest)
        tables = yield from check_forms(release, manifest, description)
        if tables:
            with suppress(Refused):  # without a folder of its own for kernels it is only slower
                use_kernels(state_home())
            own = kind.part("statements")(release, manifest) if kind.statements else None
            if own is None:
                yield NotChecked("the manifest", "this system does not say what it states")
            else:
                yield from check_statements(common(kind.title, manifest) | own, manifest)
            values = list(check_values(release, tables))
            yield from values
            if not any(each.faults for each in values):  # otherwise tables/ cannot be made again
                yield from check_tidy(release, description)
            yield from NAMES.check(release, manifest["files"])
            yield from POINTS.check(release, manifest["files"])
            if kind.release_checks:
                yield from kind.part("release_checks")(release, manifest)


def _rendered(
    facts: Mapping[str, Any], shown: Sequence[Check], verdict: str, unchecked: Sequence[NotChecked]
) -> RenderableType:
    """Return the release's name, digest and marks, a table of checks, what is not checked, and the verdict."""
    parts: list[RenderableType] = [f"{facts['release']}\ndigest {facts['digest']}", *facts["marks"]]
    if shown:
        table = Table("", "check", "over", "fault: what it is, not what is stated")
        for each in shown:
            mark = Text("wrong", "red") if each.faults else Text("ok", "green")
            table.add_row(mark, each.what, each.over, each.first_faults)
        parts.append(table)
    for why in dict.fromkeys(each.why for each in unchecked):
        named = ", ".join(dict.fromkeys(each.part for each in unchecked if each.why == why))
        parts.append(Text(f"not checked: {named} ({why})"))
    return Group(*parts, *([verdict] if verdict else []))
