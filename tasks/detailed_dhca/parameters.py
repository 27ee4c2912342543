"""The parameters directory of SafeTab-P. Public."""

from __future__ import annotations

from typing import TypeAlias

from tasks.detailed_dhca.configuration import Configuration
from tasks.inputs.findings import Finding
from tasks.population_groups import parameters

Parameters: TypeAlias = parameters.Parameters[Configuration]


def read_parameters(params: str) -> tuple[Parameters | None, list[Finding]]:
    """Read config.json and the iteration files as `parameters.read_parameters` does."""
    return parameters.read_parameters(params, Configuration)
