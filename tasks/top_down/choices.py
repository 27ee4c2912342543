"""The words by which a run of the TopDown Algorithm is chosen, in settings, options and files."""

from __future__ import annotations

from typing import Literal

Estimator = Literal["topdown", "gls"]
ProductName = Literal["persons", "units"]
MeasurementLayout = Literal["parquet", "nmf", "none"]  # our own, the Census Bureau's
MicrodataForm = Literal["parquet", "text"]
ESTIMATORS: tuple[Estimator, ...] = ("topdown", "gls")
PRODUCTS: tuple[ProductName, ...] = ("persons", "units")
