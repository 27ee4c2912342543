"""The states by which an account's budget is kept, as two-digit FIPS codes: each has one name and one sum."""

import re
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

Value = TypeVar("Value", bound=Hashable)
STATES_US = tuple(f"{code:02d}" for code in range(1, 57) if code not in (3, 7, 14, 43, 52))  # with DC, 11
STATES_PR = ("72",)
EVERYWHERE = (*STATES_US, *STATES_PR)  # a run whose persons are in no state charges all, so it adds to every sum
_CODES = (
    "AL AK AZ AR CA CO CT DE DC FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY NC ND OH OK OR "
    "PA RI SC SD TN TX UT VT VA WA WV WI WY PR"
)
POSTAL = dict(zip(EVERYWHERE, _CODES.split(" "), strict=True))
_OF_POSTAL = {code: state for state, code in POSTAL.items()}
_PLACE = re.compile(r"(?:[0-9]{7}US)?([0-9]{2})(?:[0-9]{3}|[0-9]{5}|[0-9]{9,10}|[0-9]{13,14})?")
_NOWHERE = re.compile("[09]*")


def check_states(states: tuple[str, ...]) -> None:
    """Refuse states with which charges could pass an account's total unnoticed.

    Raises ValueError if one appears twice or is not the FIPS code of a state, of DC or of Puerto Rico.
    """
    if unknown := sorted(set(states) - set(EVERYWHERE)):
        raise ValueError(
            f"a state must be a two-digit FIPS code, such as 44 for Rhode Island, not {', '.join(map(repr, unknown))}"
        )
    if twice := sorted({state for state in states if states.count(state) > 1}):
        raise ValueError(f"each state must be named once; twice: {', '.join(twice)}")


def charged_alike(spent: Mapping[str, object]) -> bool:
    """Return whether every state was charged, and all the same amount."""
    return set(spent) == set(EVERYWHERE) and len(set(spent.values())) == 1


def alike(values: Mapping[str, Value]) -> dict[Value, list[str]]:
    """Return the states with equal values, by value."""
    found: dict[Value, list[str]] = {}
    for state, value in values.items():
        found.setdefault(value, []).append(state)
    return found


def listed(states: Iterable[str]) -> str:
    """Return states as text; `everywhere` stands for all of them."""
    names = sorted(states)
    return "everywhere" if names == sorted(EVERYWHERE) else " ".join(names)


def states_of(levels: Iterable[str]) -> set[str]:
    """Return the states of levels; empty unless all look like codes of states, counties, places, tracts or blocks.

    Such codes are the FIPS code of a state followed by 0, 3, 5, 9, 10, 13 or 14 digits, possibly after a prefix such as
    0500000US, or the state's postal code. Levels that are empty or consist of 0s or 9s are in no state.
    """
    states = set()
    for level in levels:
        if _NOWHERE.fullmatch(level):
            continue
        place = _PLACE.fullmatch(level)
        state = place[1] if place else _OF_POSTAL.get(level, "")
        if state not in POSTAL:
            return set()
        states.add(state)
    return states
