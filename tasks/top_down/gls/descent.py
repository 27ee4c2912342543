"""Estimate by generalized least squares over the whole spine: pass information up, then descend as the program does."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import spine.gls as engine  # its compiled functions are imported at first use: they import numba
from spine.top_down import Estimates
from tasks.lifecycle.workers import Workers
from tasks.top_down.estimate.descent import Descent, Found, all_batches, descend
from tasks.top_down.gls.margins import find_margins, save_states
from tasks.top_down.gls.pass_up import above_counties, above_parts, load_information, pass_up
from tasks.top_down.run_plan import US
from tasks.top_down.source import Source

if TYPE_CHECKING:
    from spine.gls import Information
    from spine.top_down import OwnAnswers


def estimate_by_gls(source: Source, workers: Workers) -> None:
    """Estimate the histograms of every geounit of every product, and the margins of error."""
    workers.map("pass up", source, pass_up, all_batches(source, "County", "Block"))
    descend(source, workers, GlsDescent)
    find_margins(source, workers)


class GlsDescent(Descent):
    """The program's steps, each geounit estimated by its information instead of its own answers."""

    def answers(self, parents: Estimates | None) -> OwnAnswers:
        """Return what the children of these parents, or the roots, are estimated from: their information."""
        known = self._top if parents is None else self._children_information(parents)
        return engine.TreeAnswers(self.plan, self.measure, known)

    def roots(self) -> Found:
        """Estimate the nation, or the parts of a state."""
        if self.state == US:
            save_states(self.source, self.product, self.plan, self._top)
        return super().roots()

    @cached_property
    def _top(self) -> tuple[Information, ...]:
        """Return the information of the nation and all states' parts, or of a state's parts and counties."""
        if self.state == US:
            return above_parts(self.source, self.product, self.plan, self.measure)
        return above_counties(self.source, self.product, self.state, self.plan, self.measure)

    def _children_information(self, parents: Estimates) -> tuple[Information, ...]:
        """Return the children's information; below the tracts none is saved, and it is passed up again."""
        spine = self.plan.spine
        if parents.level == 0:
            return self._top
        if parents.level >= spine.levels.index("Tract"):
            return ()
        first, last = self.plan.first_child[parents.level][[parents.first, parents.last]].tolist()
        level = spine.levels[parents.level + 1]
        return (load_information(self.source, self.product, self.state, level, first, last),)
