"""The systems as Prefect flows. Their stages are in other files, so that `das truth` need not import Prefect.

Retried or started again under the same run id, a flow continues its own run: the same noise, one charge, one release.
"""

# Annotations are evaluated here, not kept as text: a flow's parameter is of its system's settings.

from functools import cache
from typing import Any

from prefect import Flow, flow

from flows.execution.run import carry_out, flow_options
from flows.execution.systems import SYSTEMS


@cache
def _flow_of(name: str) -> Flow[..., Any]:
    system = SYSTEMS[name]
    settings_class = system.part("settings_class")

    def run(settings: settings_class) -> Any:  # type: ignore[valid-type]
        return carry_out(settings)

    run.__name__ = name.replace("-", "_")
    run.__doc__ = f"{system.about}\n\nReturns the path of the release, a list for several parts, or None if skipped."
    return flow(name=name, **flow_options(system.at_once))(run)


def __getattr__(name: str) -> Flow[..., Any]:
    """Return the flow of a system: `bottom_up` of bottom-up."""
    if (system := name.replace("_", "-")) not in SYSTEMS:
        raise AttributeError(f"there is no system {system}")
    return _flow_of(system)
