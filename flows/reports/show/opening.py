"""Open a release that may be anybody's work: what it is, and its pages by the system that made it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from flows.execution.systems import kind_of_release
from flows.reports.show.maps.boundaries import places_of
from flows.reports.show.release_pages import ReleasePages
from flows.reports.show.scope import Scope
from flows.reports.show.view import RELEASED, Confidence, NotThere
from tasks.errors import Failed, Refused
from tasks.releases.manifest import MANIFEST, read_manifest, require_release
from tasks.releases.received import NotOfRelease, reason_of


@contextmanager
def refusing_malformed(folder: Path) -> Iterator[None]:
    """Turn what a malformed release makes the code inside raise into a refusal.

    No list of what its manifest and tables must be would be complete. What names its own reason passes.
    """
    try:
        yield
    except (Refused, Failed, NotThere, OSError):
        raise
    except Exception as error:
        what = f"{folder} is not what its {MANIFEST} says, or not a release of its kind"
        raise Refused(f"{what}: {reason_of(error)}") from error


def open_release(
    folder: Path, scope: Scope | None = None, boundaries: Sequence[Path] = (), confidence: Confidence = RELEASED
) -> ReleasePages:
    """Return the pages of a release; confidence: of the margins of a view whose address names none.

    Raises Refused where the folder is no release, or of a system that this version does not have. What a malformed
    release raises is for `refusing_malformed`.
    """
    require_release(folder)
    try:
        manifest = read_manifest(folder)
    except NotOfRelease as fault:
        raise Refused(f"{folder}: {fault}") from None
    if not all(isinstance(manifest.get(key), str) for key in ("release", "run")):
        raise Refused(f"{folder / MANIFEST} is not the manifest of a release: it does not say what, or of which run")
    kind = kind_of_release(manifest["release"])
    if kind is None:
        raise Refused(f"{folder} is a kind of release that das show does not know: {manifest['release']}")
    pages: ReleasePages = kind.part("page")(folder, manifest, scope or Scope())
    pages.places, pages.confidence = places_of(folder, manifest, boundaries), confidence
    return pages
