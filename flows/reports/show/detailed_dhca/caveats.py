"""How to read each view, in one sentence that is right: the margins are those of the noise, over all runs."""

from __future__ import annotations

from flows.reports.show.detailed_dhca.release import Release

MARGIN = "In at least 95 of 100 runs the noise is no larger than the margin; that is over all runs, "
CAVEATS = {
    "overview": "A group's own noisy size chose its table, and below the state a group whose noisy total was too small "
    "is suppressed: a group without a row may be small or empty, which is not a count of zero.",
    "region": MARGIN + "not over those in which a count came out large enough to be published, so that small published "
    "counts below the state lie too high on average.",
    "iteration": MARGIN + "not over those in which a count was published: where many regions are suppressed, the "
    "small counts that remain lie too high on average.",
    "group": MARGIN + "whether or not they would have published this group, and it covers the noise alone, not what "
    "the census itself missed.",
    "missing": "No count is not a count of 0: why there is none follows from a noisy total, or from what the run was "
    "asked for, and the group may be empty or not.",
    "same": "These two are one and the same count: their regions are made of the same blocks and share one noisy "
    "answer, so their difference is exactly 0 and says nothing about the noise.",
    "compare": "The noises of the two groups are independent, whether or not one lies in the other, so the margin of "
    "their difference is that of the law of the difference: two groups of equal size would differ by no more in at "
    "least 95 of 100 runs, published or not.",
    "find": "A region or an iteration that is listed is in the release; whether a group of the two was published, and "
    "else why not, its own page says.",
}
CLIPPED = (
    " Counts below 0 were set to 0 after all sums, so small ones lie too high on average and sums need not add up."
)
EXACT = "These are exact counts without any noise, and never to be published."


def caveat(release: Release, view: str) -> str:
    """Return how to read a view of this release, a sentence or two."""
    if "NOT_PRIVATE" in release.manifest:
        return EXACT
    clipped = release.manifest["configuration"].get("allow_negative_counts") is False and view not in (
        "find",
        "missing",
    )
    return CAVEATS[view] + CLIPPED * clipped
