"""A privacy budget that counts down, for programs of one's own: it pays for noisy counts until it is spent."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from privacy.noise.exact import Exact, exact
from privacy.noise.laws import UNITS, Definition, Law, law
from privacy.noise.margins import margin_of_error
from privacy.noise.measure import measure, whole_counts
from privacy.noise.sampler import check_law

if TYPE_CHECKING:
    import pandas as pd


class BudgetSpent(ValueError):
    """A budget has less left than was asked for. Nothing was drawn, and nothing was charged."""


class Budget:
    """A budget in rho (`zcdp="1"`) or epsilon (`puredp="1"`), exact: numbers are text, fractions or integers.

    It lives in this process alone: it is never copied, pickled or used after a fork, for each copy could spend it. What
    must outlast the process is charged to a `Ledger`. It adds up what its calls spend; all of them cover the same
    change of the data, the one that their stabilities are true of.

    >>> import pandas as pd
    >>> from das_flows import Budget
    >>> budget = Budget(zcdp="1")
    >>> noisy = budget.measure(pd.Series({"north": 412, "south": 398}), "1/2", stability=2)
    >>> list(noisy), list(noisy.index), budget.left
    (['count', 'low', 'high'], ['north', 'south'], Fraction(1, 2))
    >>> budget.charge("0.6")
    Traceback (most recent call last):
    flows.budget.BudgetSpent: rho 3/5 was asked for; 1/2 of 1 is left
    """

    def __init__(self, *, zcdp: Exact | None = None, puredp: Exact | None = None) -> None:
        given = {name: value for name, value in (("zcdp", zcdp), ("puredp", puredp)) if value is not None}
        if len(given) != 1:
            raise ValueError('a budget has one definition: Budget(zcdp="1") in rho, or Budget(puredp="1") in epsilon')
        ((name, value),) = given.items()
        self.definition = cast(Definition, name)
        self.total = exact(value, "the budget")
        if self.total <= 0:
            raise ValueError(f"the budget must be positive, not {self.total}")
        self._charges: list[Fraction] = []
        self._lock, self._process = Lock(), os.getpid()

    def __repr__(self) -> str:
        return f"Budget({self.definition}: {self.left} of {UNITS[self.definition]} {self.total} is left)"

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        raise TypeError("a Budget cannot be copied or pickled: each copy could spend it")

    @property
    def spent(self) -> Fraction:
        """What has been charged."""
        return sum(self._charges, Fraction(0))

    @property
    def left(self) -> Fraction:
        """What can still be charged."""
        return self.total - self.spent

    def charge(self, amount: Exact) -> None:
        """Take an amount off the budget, for noise that is drawn elsewhere. Raises BudgetSpent where less is left."""
        asked = exact(amount, "the amount")
        if asked <= 0:
            raise ValueError(f"the amount must be positive, not {asked}")
        if os.getpid() != self._process:
            raise RuntimeError("this Budget belongs to the process that made it: a forked one could spend it again")
        with self._lock:
            if asked > self.left:
                unit = UNITS[self.definition]
                raise BudgetSpent(f"{unit} {asked} was asked for; {self.left} of {self.total} is left")
            self._charges.append(asked)

    def law_within(
        self, margin: int, *, stability: int, cells: int = 1, confidence: Exact = "0.95"
    ) -> tuple[Law, Fraction]:
        """Return the widest noise whose margin of error is at most `margin` counts, and what it costs. Charges nothing.

        The margin is of a count, or of a sum of `cells` of them. The cost is rounded up at about the sixth digit.
        """
        from privacy.analyses.margin_budgets import least_budget

        amount = least_budget(self.definition, margin, stability, 1 - _confidence(confidence), cells)
        return law(self.definition, amount, stability), amount

    def measure(
        self,
        counts: pd.Series[int] | pd.DataFrame,
        amount: Exact | None = None,
        *,
        stability: int,
        margin: int | None = None,
        by: Mapping[str, Sequence[Any]] | None = None,
        confidence: Exact = "0.95",
    ) -> pd.DataFrame:
        """Charge an amount, then return noisy counts: a frame of `count`, `low` and `high`, the index kept.

        The noise is new in every call, and each call is charged. A count may be negative: it is noise. The index is
        returned as it is: make it of what is public. That of `value_counts()` is not: it has only values that somebody
        has, and sorts them by their counts.

        Parameters
        ----------
        counts
            confidential: a series of whole numbers; or, with `by`, a frame of records, a row each.
        amount
            what the call spends, in rho or epsilon: the noise is that of `law(definition, amount, stability)`.
        stability
            the most counts of this call that one record's change moves, by one each: 1 where a record that is added or
            removed is in one count, 2 where it is replaced.
        margin
            in place of the amount: the margin of error that a count may have; `law_within` says what it costs.
        by
            columns of the frame, each with the values that it can have. They are declared, not looked up: groups
            without a record are counted too, and a record with another value is in none.
        confidence
            of the interval from low to high around one count: `count` minus and plus the exact margin.

        Raises
        ------
        BudgetSpent
            where less is left; nothing is drawn.
        ValueError
            for counts that are no whole numbers, a float as amount, columns or values that cannot be counted by: those
            declared must be of the column's type.
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
        whole = whole_counts(series.to_numpy())  # what cannot be measured is refused before it is paid
        check_law(noise)
        wide = margin_of_error(noise, alpha=1 - exactly)
        self.charge(cast(Exact, amount))
        noisy = measure(whole, noise).counts
        found = pd.DataFrame({"count": noisy, "low": noisy - wide, "high": noisy + wide}, index=series.index)
        found.attrs["noise"] = f"{noise.name}, {noise.parameter_name} {noise.parameter}"
        return found


def _counted(counts: pd.Series[int] | pd.DataFrame, by: Mapping[str, Sequence[Any]] | None) -> pd.Series[int]:
    """Return the counts to measure: those given, or the records of each declared group."""
    import pandas as pd

    if by is None:
        if not isinstance(counts, pd.Series):
            raise ValueError("counts are a pandas series; of a frame of records, name the groups: by={column: values}")
        if counts.name in ("count", "proportion"):
            raise ValueError(
                "the series looks like one of value_counts(), whose index says which values somebody has, and their "
                "order: count with measure(frame, …, by={column: values}), or rename a series whose index is public"
            )
        return counts
    if not isinstance(counts, pd.DataFrame) or not by:
        raise ValueError("groups are of a frame of records: measure(frame, …, by={column: values})")
    if wrong := [name for name in by if list(counts.columns).count(name) != 1]:
        raise ValueError(
            f"the frame must have one column {wrong[0]!r:.80}; it has {list(counts.columns).count(wrong[0])}"
        )
    declared = [pd.Index(values, name=name) for name, values in by.items()]
    bad = [each.name for each in declared if not len(each) or each.has_duplicates]
    if bad:
        raise ValueError(f"the values declared of {bad[0]} are none, or one of them is there twice")
    groups = pd.MultiIndex.from_product(declared) if len(declared) > 1 else declared[0]
    number, inside = np.zeros(len(counts), np.int64), np.ones(len(counts), bool)
    for each in declared:
        _check_type(each, counts[each.name])
        own = each.get_indexer(pd.Index(counts[each.name]))
        number, inside = number * len(each) + own, inside & (own >= 0)
    return pd.Series(np.bincount(number[inside], minlength=len(groups)), groups)


def _check_type(declared: pd.Index[Any], column: pd.Series[Any]) -> None:
    """Raise ValueError where declared values have another type than a column: no record would match them.

    It depends on types of columns alone, not on what a record has.
    """
    import pandas as pd

    of_column = column.dtype.categories.dtype if isinstance(column.dtype, pd.CategoricalDtype) else column.dtype
    kinds = [
        "numbers" if pd.api.types.is_numeric_dtype(kind) else "times" if kind.kind in "mM" else "text"
        for kind in (declared.dtype, of_column)
    ]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"the values declared of {declared.name!r:.80} are {kinds[0]}, its column's type is {kinds[1]}: convert one"
        )


def _confidence(given: Exact) -> Fraction:
    confidence = exact(given, "the confidence")
    if not 0 < confidence < 1:
        raise ValueError(f'the confidence must lie strictly between 0 and 1, not {confidence}: write "0.95"')
    return confidence
