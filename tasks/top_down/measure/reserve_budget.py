"""Reserve the spend of persons and units at once, and with it make the run's secret. It gates all noise."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from hashlib import sha256

from spine.allocations import Allocation
from spine.noise import distinct_shares, replacement_cost
from tasks.lifecycle.errors import Failed, Refused
from tasks.lifecycle.reservation import Charging, authorize
from tasks.lifecycle.workers import Workers
from tasks.top_down.input.geography import spine_digest
from tasks.top_down.run import TopDownRun
from tasks.top_down.run_plan import US, ProductName, request_digest, undrawable
from tasks.top_down.spend import planned_spend


def configuration_digest(run: TopDownRun) -> str:
    """Return the digest that noise and reservation are bound to: of the request and of its spines."""
    requested = request_digest(run.design, run.validated.digests)
    return sha256(f"{requested}\nspine {spine_digest(run)}\n".encode()).hexdigest()


def reserve_budget(run: TopDownRun, workers: Workers, charging: Charging) -> None:
    """Reserve the run's whole spend and make its secret.

    Raises Refused, Failed as `authorize` does; Failed where the noise of a spine would cost another sum than is
    charged.
    """
    design, validated = run.design, run.validated
    workers.map("reserve budget", run, check_cost, run.product_states)
    if validated.nation:
        for product in design.products:
            check_laws(design.allocations[product], {US: [design.allocations[product].levels[US]]})
    spend = planned_spend(design, nation=validated.nation)
    authorize(run, charging, validated.states, spend, configuration_digest(run), validated)


def check_cost(run: TopDownRun, product: ProductName, state: str) -> None:
    """Compare the cost of the noise on a state's spine, from its laws, with the charge; check that it can be drawn.

    Raises Refused where a law is too wide or too narrow for the sampler, which would stop the run after its charge;
    Failed where the costs differ.
    """
    spine, allocation = run.spine(product, state), run.design.allocations[product]
    if replacement_cost(spine, allocation) != run.design.cost(product, nation=False):
        raise Failed(f"reserve budget: the noise on the spine of state {state} does not cost what is charged")
    check_laws(allocation, distinct_shares(spine))


def check_laws(allocation: Allocation, shares: Mapping[str, list[Fraction]]) -> None:
    """Refuse laws that cannot be drawn; shares: by level."""
    for level, query, error in undrawable(allocation, shares):
        raise Refused(f"the noise of {query} in level {level} cannot be drawn: {error}")
