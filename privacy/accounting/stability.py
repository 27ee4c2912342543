"""Stability: how many population groups of a level one record can be in (SafeTab-P paper, section 4)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class IterationCounts:
    """The sizes of one level's map g_i in the public parameter files, from which its stability follows.

    alone, combination, ethnicity: the most iterations of that kind that one code maps to.
    alone_reach: the most in-combination iterations that the codes of one alone iteration map to together.
    all_combination: the number of in-combination iterations that some code maps to.
    """

    alone: int
    combination: int
    ethnicity: int
    alone_reach: int
    all_combination: int


def stability(counts: IterationCounts, max_race_codes: int) -> int:
    """Return s, an upper bound on the population groups of a level that one record can be in.

    Two codes of one alone iteration or `max_race_codes` codes of different ones reach the most; an ethnicity adds its
    own. It depends on public files alone, never on the observed records. Proof: docs/privacy.md#proof, 4.
    Raises ValueError if a possible record reaches more groups than the formula allows, or if no code maps to any.
    """
    most = max(counts.alone, counts.combination) * max(2, max_race_codes) + counts.ethnicity
    if most == 0:
        raise ValueError("no code maps to an iteration of this level: set its budget to 0")
    if (reach := record_reach(counts, max_race_codes)) > most:
        raise ValueError(f"a possible record is in {reach} population groups, more than the stability formula's {most}")
    return most


def record_reach(counts: IterationCounts, max_race_codes: int) -> int:
    """Return the most population groups of a level that a possible record can be in.

    A record whose codes share an alone iteration A is in A and in the in-combination iterations of its codes. Any other
    record is in in-combination iterations only.
    """
    within = counts.alone + min(max_race_codes * counts.combination, counts.alone_reach) if counts.alone else 0
    across = min(max_race_codes * counts.combination, counts.all_combination)
    return max(within, across) + counts.ethnicity
