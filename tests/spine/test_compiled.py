"""Kernels that kernels call."""

from __future__ import annotations

from typing import Any

import numpy as np

from spine.compiled import compiled
from spine.geography import FloatArray


@compiled
def raised(values: FloatArray, by: int) -> float:
    values += by
    return float(values.sum())


@compiled
def raised_twice(values: FloatArray, by: int) -> float:
    return raised(values, 1) + raised(values, by)


def test_a_kernel_is_a_part_of_its_callers_and_compiled_once_for_literals_and_others() -> None:
    kernel: Any = raised
    caller: Any = raised_twice
    caller._cache.disable()  # a cached one needs no part
    values = np.arange(3.0)
    assert caller(values, 2) == 6.0 + 12.0
    assert values.tolist() == [3.0, 4.0, 5.0]
    assert not kernel.overloads
    assert len(kernel.part.overloads) == 1
    assert raised(values, 1) == 15.0
    assert len(kernel.overloads) == 1
