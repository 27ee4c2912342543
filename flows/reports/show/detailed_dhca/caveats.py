"""How to read each view of a Detailed DHC-A release: its margins are of the noise, over all runs."""

from __future__ import annotations

from flows.reports.show import caveats
from flows.reports.show.detailed_dhca.release import Release

MARGIN = "In at least 95 of 100 runs the noise is no larger than the margin. "
CAVEATS = {
    "overview": "A group's own noisy size chose its table. Below the state, a group whose noisy total was too small is "
    "suppressed: a group without a row may be small or empty, but its count is not known to be 0.",
    "region": MARGIN
    + "This holds over all runs, not only over those in which a count was large enough to be published: "
    "small published counts below the state are too high on average.",
    "iteration": MARGIN + "This holds over all runs, not only over those in which a count was published: where many "
    "regions are suppressed, the small counts that remain are too high on average.",
    "group": MARGIN
    + "This holds over all runs, whether or not they would have published this group. The margin covers "
    "the noise alone, not the errors of the census itself.",
    "missing": "No count does not mean a count of 0. The reason follows from a noisy total or from the run's settings; "
    "the group may be empty or not.",
    "same": "These are one and the same count: the two regions are made of the same blocks and share one noisy answer. "
    "Their difference is exactly 0, which is no information about the noise.",
    "compare": "The two groups have independent noise, even where one region contains the other, so the margin is that "
    "of the exact law of their difference: in at least 95 of 100 runs two groups of equal size differ by no more.",
    "iterations": "Regional iterations, and the Detailed ones in each: all their codes are in it. A person may "
    "be in several, so they do not add up.",
    "find": "The release contains every region and iteration listed here. The page of a group has its count, or the "
    "reason why it has none.",
}


def caveat(release: Release, view: str) -> str:
    """Return how to read a view of this release."""
    clipped = release.clipped and view not in ("find", "missing")
    return caveats.caveat(release.manifest, CAVEATS[view], clipped=clipped)
