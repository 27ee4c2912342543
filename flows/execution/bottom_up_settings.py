"""The settings of a bottom-up run."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator

from flows.execution.option import argument, option
from flows.execution.settings import Location, RunSettings
from privacy.accounting.composition import Spend
from privacy.noise.exact import quoted_number
from privacy.noise.sampler import check_law
from tasks.errors import refusing

if TYPE_CHECKING:
    from tasks.bottom_up.measure import BottomUpPlan


def checked_number(text: str) -> str:
    """Return a number as it was written, `0.5` or `1/2`, if it is valid. Raises ValueError."""
    quoted_number(text)
    return text


def _marginals(texts: list[str]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(name.strip() for name in text.split(",") if name.strip()) for text in texts)


Exact = Annotated[str, AfterValidator(checked_number)]


class BottomUpSettings(RunSettings):
    """The inputs, outputs and options of one bottom-up run."""

    SYSTEM = "bottom-up"
    DATA = ("table",)
    IS_TABLE = True

    table: Location = argument("TABLE", "The table: text or Parquet (path or URL).")
    declaration: Location = argument(
        "DECLARATION", "The declaration of the table: leaves, axes, zeros, states (TOML or JSON).", typed=Path
    )
    epsilon: Exact = option(..., "Privacy-loss budget of the histogram, exact: 0.5 or 1/2.")
    totals: Location | None = option(None, "Published totals to calibrate to (CSV).", "--calibrate", typed=Path)
    calibration: Literal["additive", "nonnegative"] = option("additive", "How to calibrate.")
    tolerance: Exact = option("0", "How far a published total may be from the data and still count as consistent.")
    marginals: tuple[tuple[str, ...], ...] | None = option(
        None,
        "A marginal, `A,B,...`; may be repeated. Default: the total, each axis, level and recode.",
        "--marginal",
        typed=list[str],
        read=_marginals,
    )
    clip: bool = option(False, "Publish no negative count (biases counts upwards).")

    def spends(self) -> dict[str, Spend]:
        """Return the spend of the run, by the name of its release."""
        return {self.folder.upper(): self.design().mechanism.spend}

    def charged_states(self) -> tuple[str, ...]:
        """Return the states that the run charges."""
        return self.design().declared.charged

    def remarks(self, manifest: Mapping[str, Any]) -> list[str]:
        """Return the number of groups of totals calibrated in each way, and the names of inconsistent ones."""
        cases: dict[str, list[str]] = {}
        for group in manifest["calibration"]["groups"]:
            case = group["case"]
            cases.setdefault(case, []).append(" ".join(value for name, value in group.items() if name != "case"))
        dropped = cases.pop("inconsistent", [])
        lines = [f"{case}: {len(groups)} groups" for case, groups in cases.items()]
        if dropped:
            lines.append(f"not reported, for their published total does not agree: {', '.join(dropped)}")
        return lines

    def configuration_digest(self) -> str:
        """Return the digest of the design. Raises Refused."""
        return self.design().digest()

    def design(self) -> BottomUpPlan:
        """Return the design of the run, from the public files. Raises Refused."""
        from tasks.bottom_up.declared_histogram import check_marginals, read_declared_histogram
        from tasks.bottom_up.measure import BottomUpPlan
        from tasks.bottom_up.totals import read_totals

        declared = read_declared_histogram(Path(self.declaration))
        each = ((), *((name,) for name in declared.names))
        with refusing():
            design = BottomUpPlan(
                declared=declared,
                epsilon=Fraction(self.epsilon),
                totals=read_totals(Path(self.totals), declared) if self.totals else None,
                calibration=self.calibration,
                tolerance=Fraction(self.tolerance),
                marginals=each if self.marginals is None else self.marginals,
                clip=self.clip,
            )
            check_marginals(declared, design.marginals)
            if design.tolerance < 0:
                raise ValueError("the tolerance must not be negative")
            check_law(design.mechanism.law)
        return design
