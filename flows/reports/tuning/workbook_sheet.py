"""A worksheet with formulas written as Python expressions, each with its text and its value.

A program that does not recalculate shows the stored values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import pi
from operator import add, ge, gt, mul, pow, sub, truediv
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from xlsxwriter.utility import xl_rowcol_to_cell

Operator = Callable[[Any, Any], "Formula"]


@lru_cache(maxsize=1024, typed=True)
def _constant(content: float | str) -> Formula:
    """Return a number or a word as a formula writes it."""
    if isinstance(content, str):
        return Formula(f'"{content}"', content)
    return Formula(str(content).upper(), np.float64(content))  # 1E-12


def _formula(operand: Any) -> Formula:
    return operand if isinstance(operand, Formula) else _constant(operand)


def _operator(symbol: str, compute: Callable[[Any, Any], Any]) -> tuple[Operator, Operator]:
    """Return a binary operator of formulas, and the same with its operands the other way round."""

    def applied(left: Any, right: Any) -> Formula:
        left, right = _formula(left), _formula(right)
        return Formula(f"{left.operand}{symbol}{right.operand}", compute(left.value, right.value), compound=True)

    return applied, lambda right, left: applied(left, right)


class Formula:
    """A spreadsheet's expression: a cell, a range or a computation on these. Its value may be an array."""

    __slots__ = ("compound", "text", "value")

    def __init__(self, text: str, value: Any, *, compound: bool = False) -> None:
        self.text, self.value, self.compound = text, value, compound

    @property
    def operand(self) -> str:
        """The text as an operand."""
        return f"({self.text})" if self.compound else self.text

    def __str__(self) -> str:
        return self.text

    def __neg__(self) -> Formula:
        return Formula(f"-{self.operand}", -self.value, compound=True)

    def equals(self, word: str) -> Formula:
        """Return the condition that a cell equals a word."""
        return Formula(f'{self}="{word}"', self.value == word, compound=True)

    __add__, __radd__ = _operator("+", add)
    __sub__, __rsub__ = _operator("-", sub)
    __mul__, __rmul__ = _operator("*", mul)
    __truediv__, __rtruediv__ = _operator("/", truediv)
    __pow__, _ = _operator("^", pow)
    __gt__, __lt__ = _operator(">", gt)
    __ge__, __le__ = _operator(">=", ge)


def _function(name: str, compute: Callable[..., Any], *more: str) -> Callable[..., Formula]:
    """Return a spreadsheet's function; `more` are constant last arguments."""

    def applied(*operands: Any) -> Formula:
        formulas = [_formula(operand) for operand in operands]
        arguments = ",".join([*(formula.text for formula in formulas), *more])
        return Formula(f"{name}({arguments})", compute(*(formula.value for formula in formulas)))

    return applied


EXP, LN, SQRT, SIN = (
    _function(name, f) for name, f in {"EXP": np.exp, "LN": np.log, "SQRT": np.sqrt, "SIN": np.sin}.items()
)
MAX, MIN = _function("MAX", np.maximum), _function("MIN", np.minimum)
INT, ROUND_UP = _function("INT", np.floor), _function("ROUNDUP", np.ceil, "0")  # for numbers >= 0
ROUND = _function("ROUND", lambda x: np.floor(x + 0.5), "0")
NORMAL_QUANTILE, NORMAL = _function("NORMSINV", ndtri), _function("NORMSDIST", ndtr)
SUM_PRODUCT = _function("SUMPRODUCT", lambda first, second=1.0: (first * second).sum())
AND = _function("AND", np.logical_and)
IS_NUMBER = _function("ISNUMBER", lambda x: not isinstance(x, str))
IF = _function("IF", lambda condition, yes, no: yes if condition else no)
PI = Formula("PI()", pi)


class Sheet:
    """One worksheet."""

    def __init__(self, book: Any, name: str) -> None:
        self.name = name
        self.sheet = book.add_worksheet(name)
        self.sheet.set_landscape()
        self.sheet.fit_to_pages(1, 0)
        self.title = book.add_format({"bold": True, "font_size": 14})
        self.heading = book.add_format({"bold": True, "text_wrap": True, "valign": "bottom", "bottom": 1})

    def put(self, row: int, column: int, content: Formula | float | str, form: Any = None) -> Formula:
        """Write a constant, or a formula with its value; return the cell."""
        if isinstance(content, Formula):
            value = content.value
            whole = isinstance(value, float) and value.is_integer()
            self.sheet.write_formula(row, column, f"={content}", form, int(value) if whole else value)
        else:
            self.sheet.write(row, column, content, form)
        return Formula(f"'{self.name}'!{_place(row, column)}", _formula(content).value)

    def cells(self, first: tuple[int, int], last: tuple[int, int], values: Any = None) -> Formula:
        """Return a range of cells by its first and last (row, column), with values if a formula needs them."""
        return Formula(f"'{self.name}'!{_place(*first)}:{_place(*last)}", values)

    def headings(self, row: int, names: Sequence[str]) -> None:
        """Write a row of column names."""
        self.sheet.set_row(row, 45)
        self.sheet.write_row(row, 0, names, self.heading)


def _place(row: int, column: int) -> str:
    return str(xl_rowcol_to_cell(row, column, row_abs=True, col_abs=True))
