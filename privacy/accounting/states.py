"""The states that an account's budget is kept by, as two-digit FIPS codes: each has one name, so one sum of charges."""

STATES_US = tuple(f"{code:02d}" for code in range(1, 57) if code not in (3, 7, 14, 43, 52))  # with DC, 11
STATES_PR = ("72",)


def check_states(states: tuple[str, ...]) -> None:
    """Refuse states under which an account's total could be passed.

    Raises
    ------
    ValueError
        where one stands twice or is not the FIPS code of a state, of DC or of Puerto Rico.
    """
    if unknown := sorted(set(states) - {*STATES_US, *STATES_PR}):
        raise ValueError(
            f"states are two-digit FIPS codes, as 44 for Rhode Island; not {', '.join(map(repr, unknown))}"
        )
    if twice := sorted({state for state in states if states.count(state) > 1}):
        raise ValueError(f"states stand twice: {', '.join(twice)}")
