"""A privacy budget that counts down, for programs outside a run: it pays for noisy counts until it is spent."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from decimal import Decimal
from fractions import Fraction
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn, cast

from privacy.noise.exact import Exact, exact, whole
from privacy.noise.laws import UNITS, Definition, Law, law
from privacy.noise.margins import margin_of_error
from privacy.noise.measure import measure, whole_counts
from privacy.noise.sampler import check_law

if TYPE_CHECKING:
    import pandas as pd

    from flows.counted_groups import Records


class BudgetSpent(ValueError):
    """The requested amount exceeds the remaining budget. Nothing was drawn, and nothing was charged."""


class Budget:
    """A budget in rho (`zcdp="1"`) or epsilon (`puredp="1"`), exact: numbers are text, fractions or integers.

    It exists in this process only. It cannot be copied, pickled or used after a fork, because each copy could spend it.
    For spending that must outlast the process, use a `Ledger`. The budget adds up what its calls spend. Every call
    covers the same change of the data, namely the one for which its stability holds.

    >>> import pandas as pd
    >>> from das_flows import Budget
    >>> budget = Budget(zcdp="1")
    >>> noisy = budget.measure(pd.Series({"north": 412, "south": 398}), "1/2", stability=2)
    >>> list(noisy), list(noisy.index), budget.remaining
    (['count', 'low', 'high'], ['north', 'south'], Fraction(1, 2))
    >>> budget.charge("0.6")
    Traceback (most recent call last):
    flows.budget.BudgetSpent: rho 0.6 was asked for; 0.5 of 1 is left
    """

    def __init__(self, *unnamed: object, zcdp: Exact | None = None, puredp: Exact | None = None) -> None:
        given = {name: value for name, value in (("zcdp", zcdp), ("puredp", puredp)) if value is not None}
        if unnamed or len(given) != 1:
            raise ValueError('a budget has one definition: Budget(zcdp="1") in rho, or Budget(puredp="1") in epsilon')
        ((name, value),) = given.items()
        self._definition, self._total = cast(Definition, name), exact(value, "the budget")
        if self.total <= 0:
            raise ValueError(f"the budget must be positive, not {self.total}")
        self._charges: list[Fraction] = []
        self._lock, self._process = Lock(), os.getpid()

    def __repr__(self) -> str:
        remaining, total = _decimal(self.remaining), _decimal(self.total)
        return f"Budget({self.definition}: {remaining} of {UNITS[self.definition]} {total} is left)"

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        raise TypeError("a Budget cannot be copied or pickled: each copy could spend it")

    @property
    def definition(self) -> Definition:
        """The privacy definition; fixed when the budget is made."""
        return self._definition

    @property
    def total(self) -> Fraction:
        """The whole budget; fixed when the budget is made."""
        return self._total

    @property
    def spent(self) -> Fraction:
        """The amount that has been charged."""
        return sum(self._charges, Fraction(0))

    @property
    def remaining(self) -> Fraction:
        """The amount that can still be charged."""
        return self.total - self.spent

    def charge(self, amount: Exact) -> None:
        """Charge an amount for noise that is drawn elsewhere. Raises BudgetSpent if it exceeds the remaining budget."""
        asked = exact(amount, "the amount")
        if asked <= 0:
            raise ValueError(f"the amount must be positive, not {asked}")
        if os.getpid() != self._process:
            raise RuntimeError("this Budget belongs to the process that made it: a forked one could spend it again")
        with self._lock:
            if asked > self.remaining:
                remaining, total = _decimal(self.remaining), _decimal(self.total)
                unit = UNITS[self.definition]
                raise BudgetSpent(f"{unit} {_decimal(asked)} was asked for; {remaining} of {total} is left")
            self._charges.append(asked)

    def law_within(
        self, margin: int, *, stability: int, cells: int = 1, confidence: Exact = "0.95"
    ) -> tuple[Law, Fraction]:
        """Return the widest noise whose margin of error is at most `margin` counts, and its cost. Charges nothing.

        The margin is that of a count, or of a sum of `cells` counts. The cost is rounded up at about the sixth digit.
        """
        from privacy.analyses.margin_budgets import least_budget

        margin = whole(margin, "the margin in counts")
        law(self.definition, 1, stability)  # refuses an invalid stability
        amount = least_budget(self.definition, margin, stability, 1 - _confidence(confidence), cells)
        return law(self.definition, amount, stability), amount

    def measure(
        self,
        counts: pd.Series[int] | Records,
        amount: Exact | None = None,
        *,
        stability: int,
        margin: int | None = None,
        by: Mapping[str, Collection[Any]] | None = None,
        confidence: Exact = "0.95",
    ) -> pd.DataFrame:
        """Charge an amount, then return noisy counts: a frame of `count`, `low` and `high`, with the same index.

        Every call draws new noise and is charged. A count may be negative, because of its noise. The index is returned
        unchanged, so build it from public information. The index of value_counts(), groupby(…).size() and crosstab
        contains only groups with at least one record. `measure` cannot detect this, except for value_counts(), which it
        refuses by the name of the series. Use `by`, or .reindex(declared, fill_value=0).

        Parameters
        ----------
        counts
            confidential: a series of non-negative whole numbers or, with `by`, records, one per row: a pandas frame, an
            Arrow table or the path of a Parquet file, which is read a part at a time.
        amount
            the spend of the call, in rho or epsilon: the noise is that of `law(definition, amount, stability)`.
        stability
            the number of counts of this call that one record can change, by one each. If a record is in one count: 1
            for adding or removing it, 2 for replacing it.
        margin
            in place of the amount: the largest margin of error of a count; `law_within` returns its cost.
        by
            columns of the records, each with its possible values. These are declared, not looked up: groups without a
            record are counted too, and a record with any other value is in no group. A missing value counts as another
            value, unless None is declared.
        confidence
            of the interval from low to high around one count: `count` minus and plus the exact margin.

        Raises
        ------
        BudgetSpent
            if the amount exceeds the remaining budget; nothing is drawn.
        ValueError
            for counts that are not whole numbers or are negative, a float as amount, or columns or values that cannot
            be counted by: declared values must have the column's type.
        """
        import pandas as pd

        exactly = _confidence(confidence)
        if (amount is None) == (margin is None):
            raise ValueError(
                'name the amount or the margin: measure(counts, "0.5", …) or measure(counts, margin=10, …)'
            )
        if margin is not None:
            noise, amount = self.law_within(margin, stability=stability, confidence=confidence)
        else:
            noise = law(self.definition, cast(Exact, amount), stability)
        series = _counted(counts, by)
        if series.hasnans:
            raise ValueError("a count is missing: fill it, or leave its group out")
        exact_counts = whole_counts(series.to_numpy())  # refuse invalid counts before charging
        if not len(exact_counts):
            raise ValueError("there is no count: the series is empty")
        if exact_counts.min() < 0:
            raise ValueError("counts of records are not negative")
        check_law(noise)
        wide = margin_of_error(noise, alpha=1 - exactly)
        self.charge(cast(Exact, amount))
        noisy = measure(exact_counts, noise).counts
        found = pd.DataFrame({"count": noisy, "low": noisy - wide, "high": noisy + wide}, index=series.index)
        found.attrs["noise"] = f"{noise.name}, {noise.parameter_name} {noise.parameter}"
        return found


def _counted(counts: pd.Series[int] | Records, by: Mapping[str, Collection[Any]] | None) -> pd.Series[int]:
    """Return the counts to measure: the given ones, or the numbers of records in each declared group."""
    import pandas as pd

    if by is not None:
        from flows.counted_groups import count_groups

        return count_groups(counts, by)
    if not isinstance(counts, pd.Series):
        raise ValueError("counts are a pandas series; of records, name the groups: by={column: values}")
    if counts.name in ("count", "proportion"):
        raise ValueError(
            f"the series is named {counts.name!r}, as that of value_counts(), whose index says which values "
            "somebody has, and their order: count with measure(frame, …, by={column: values}), or rename a series "
            "whose index is public"
        )
    return counts


def _decimal(amount: Fraction) -> str:
    """Return an amount as an exact decimal or, if that takes more than 28 digits, as a fraction."""
    decimal = Decimal(amount.numerator) / amount.denominator
    return f"{decimal.normalize():f}" if Fraction(decimal) == amount else str(amount)


def _confidence(given: Exact) -> Fraction:
    confidence = exact(given, "the confidence")
    if not 0 < confidence < 1:
        raise ValueError(f'the confidence must lie strictly between 0 and 1, not {confidence}: write "0.95"')
    return confidence
