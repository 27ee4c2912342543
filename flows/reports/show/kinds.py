"""The kinds of release that `das show` knows, by what their manifests call themselves.

A new kind is a subclass of `ReleasePages` and a line in KINDS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flows.reports.show.bottom_up import BottomUpPages
from flows.reports.show.detailed_dhca.pages import DetailedDhcaPages
from flows.reports.show.detailed_dhca.release import read_manifest
from flows.reports.show.names import Names
from flows.reports.show.release_pages import ReleasePages
from flows.reports.show.scope import Scope
from flows.reports.show.top_down.pages import TopDownPages
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.manifest import MANIFEST

Opener = Callable[[Path, Mapping[str, Any], Names, Path | None, Scope], ReleasePages]
KINDS: dict[str, Opener] = {
    "Detailed DHC-A by SafeTab-P": DetailedDhcaPages,
    "Bottom-up histogram by the two-tailed geometric mechanism": BottomUpPages,
    "Redistricting data by the TopDown Algorithm": TopDownPages,
}


def open_release(
    folder: Path, names: Names | None = None, params: Path | None = None, scope: Scope | None = None
) -> ReleasePages:
    """Return a release of a kind that can be shown. Raises Refused where the folder is none."""
    manifest = read_manifest(folder)
    opener = KINDS.get(manifest["release"])
    if opener is None:
        raise Refused(f"{folder} is a kind of release that das show does not know: {manifest['release']}")
    try:
        return opener(folder, manifest, names or {}, params, scope or Scope())
    except (KeyError, TypeError, AttributeError, ValueError) as error:  # a manifest may be anybody's
        raise Refused(f"{folder / MANIFEST} is not what a release of its kind has: {error}") from None
