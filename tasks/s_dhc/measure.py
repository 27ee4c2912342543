"""Measure: add noise to every cell of every query of the run, including empty cells; one piece of work."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tasks.errors import Refused
from tasks.lifecycle.authorization import NoiseSource, read_drawing
from tasks.lifecycle.files import load_object, save_object
from tasks.lifecycle.reservation import Claim, Input
from tasks.lifecycle.run_directory import VALIDATED, RunDirectory
from tasks.lifecycle.workers import Workers
from tasks.s_dhc.run import ANSWERS, SDhcPlan, plan_of
from tasks.s_dhc.tabulate import exact_answers

Answers = dict[str, NDArray[np.int64]]


def claim(run: RunDirectory) -> Claim:
    """Return the claim of a run. Raises Refused for an infinite budget and for untruncated rows."""
    plan = plan_of(run)
    if not plan.truncated:
        raise Refused("only das sdhc truth takes counts that are not truncated: no noise covers them")
    tabulated = load_object(run / VALIDATED, Input)
    configuration = plan.configuration
    return Claim(run, configuration.states, configuration.spend(), plan.digest(), tabulated)


def measure(run: RunDirectory, workers: Workers) -> None:
    """Write the noisy answers of all queries, by the query's name, to noisy/answers."""
    workers.map("measure", run, add_noise, [()])


def add_noise(run: RunDirectory) -> None:
    """Draw the run's noise on a worker; a truth has no noise."""
    if not (run / ANSWERS).exists():
        drawing, exact = read_drawing(run), exact_answers(run)
        save_object(run / ANSWERS, noisy_answers(plan_of(run), exact, drawing) if drawing else exact)


def noisy_answers(plan: SDhcPlan, exact: Answers, drawing: NoiseSource) -> Answers:
    """Return the answers with noise. Row region x codes + code of a query's noise refers to all states, not the run's.

    So a state's noise has the same address in a run over fewer states.
    """
    found = {}
    for each in plan.configuration.queries():
        answer = exact[each.query.name]
        regions, codes, cells = answer.shape
        noise = drawing.noise(plan.law(each), each.query.name).draw(np.arange(regions * codes), cells)
        found[each.query.name] = answer + noise.reshape(answer.shape)
    return found
