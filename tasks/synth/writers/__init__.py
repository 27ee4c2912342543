"""The formats of a population, a file a system: records of tracts as columns. No writer knows chance."""

from __future__ import annotations

from collections.abc import Iterable

from tasks.lifecycle.errors import Refused
from tasks.synth.writers import ddhcb, detailed_dhca, sdhc, tda
from tasks.synth.writers.records import System

SYSTEMS: dict[str, System] = {
    system.name: system for system in (detailed_dhca.SYSTEM, ddhcb.SYSTEM, sdhc.SYSTEM, tda.SYSTEM)
}


def find_systems(names: Iterable[str]) -> tuple[System, ...]:
    """Return the systems of these names, each once; `all` names all. Raises Refused for an unknown one."""
    wanted = list(names)
    if unknown := sorted(set(wanted) - {*SYSTEMS, "all"}):
        raise Refused(f"{unknown[0]!r} is not a system: {', '.join(SYSTEMS)} or all")
    return tuple(system for name, system in SYSTEMS.items() if name in wanted or "all" in wanted)
