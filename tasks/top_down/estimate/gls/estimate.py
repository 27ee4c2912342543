"""Estimate by generalized least squares over the whole spine: information goes up, the program's steps go down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import spine.gls as engine  # its compiled functions are imported at first use: they import numba
from spine.top_down import Estimates
from tasks.lifecycle.workers import Workers
from tasks.top_down.estimate.gls.margins import find_margins
from tasks.top_down.estimate.gls.pass_up import load_information, pass_up, up_to_nation
from tasks.top_down.estimate.topdown import Steps, estimate_by_topdown
from tasks.top_down.run_plan import US
from tasks.top_down.source import Source

if TYPE_CHECKING:
    from spine.top_down import OwnAnswers


def estimate_by_gls(source: Source, workers: Workers) -> None:
    """Estimate the histograms of every geounit of every product, and the margins of error."""
    pass_up(source, workers, groups=True)
    if source.validated.nation:
        workers.map("pass up states", source, up_to_nation, [(product,) for product in source.design.products])
    estimate_by_topdown(source, workers, GlsSteps)
    find_margins(source, workers)


class GlsSteps(Steps):
    """The program's steps, each geounit estimated by its information instead of its own answers."""

    def answers(self, parents: Estimates | None) -> OwnAnswers:
        """Return what the children of these parents, or the roots, are estimated from; of blocks their own answers."""
        level, levels = 0 if parents is None else parents.level + 1, self.plan.spine.levels
        if self.state != US and level == len(levels) - 1:
            return engine.TreeAnswers(self.plan, self.measure)
        first, last = (
            (0, len(self.plan.spine.starts[0]))
            if parents is None
            else self.plan.children_of(parents.level, parents.first, parents.last)
        )
        known = load_information(self.source, self.product, self.state, levels[level], first, last)
        return engine.TreeAnswers(self.plan, self.measure, (known,))
