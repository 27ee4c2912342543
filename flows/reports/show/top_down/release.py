"""Query a TopDown release with DuckDB, reading its histograms and invariants in place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from flows.reports.show.confidence import confidence, widening
from flows.reports.show.database import Database
from flows.reports.show.scope import Scope
from flows.reports.show.top_down.geounits import OFF_SPINE, TABULATION, US, Geounit, plain_title, tabulation_above
from flows.reports.show.top_down.records import CountOfWhole, EstimatedCount, GeounitTotals, NoisyAnswer
from privacy.noise.laws import DiscreteGaussian, Law, TwoSidedGeometric
from privacy.noise.margins import margin_of_error
from privacy.noise.sampler import check_law
from spine.counts import Count, mask, sql_condition
from spine.top_down import PERSONS, UNITS
from tasks.inputs.names import NAMES, names_of_2020
from tasks.lifecycle.errors import Refused
from tasks.top_down.input.public_input import QUARTERS
from tasks.top_down.run_plan import SCHEMAS, ProductName

TOTALS: dict[ProductName, dict[str, Count]] = {  # the sums of `GeounitTotals`, by their headings
    "persons": {
        "persons": PERSONS.count("total"),
        "18 and over": PERSONS.count("voting age"),
        "Hispanic": PERSONS.count("Hispanic"),
    },
    "units": {"housing units": UNITS.count("total"), "occupied": UNITS.count("occupied")},
}
ANSWER = "query, share, variance, len(value), value[1], variance_numerator, variance_denominator"
MARGIN = "count, released, margin, estimate, standard_error"
PUBLIC_BLOCK = "(geounit[-16:-6] || geounit[-4:])"  # the 15 digits that are public, of a block's geocode


class TopDownRelease:
    """A TopDown release, open for reading, or one state of it."""

    def __init__(self, folder: Path, manifest: Mapping[str, Any], scope: Scope) -> None:
        self.folder, self.manifest = folder, manifest
        self.names = {**names_of_2020(), **NAMES.of_release(folder, manifest["files"])}
        self.products: tuple[str, ...] = tuple(manifest["products"])
        self.scope = scope
        noise: list[Any] = next((facts["noise"] for facts in manifest["products"].values() if facts.get("noise")), [])
        self.gaussian = bool(noise) and noise[0]["law"] == "discrete Gaussian"
        self.states: list[str] = [state for state in manifest["states"] if scope.state in (None, state)]
        if not self.states:
            raise Refused(f"the release has no state {scope.state}; it has {', '.join(manifest['states'])}")
        self.nation: bool = manifest["spine"]["us_level"]
        self._database = Database(folder, manifest["files"])
        self._width = lru_cache(maxsize=1024)(self._find_width)
        for product in self.products:
            for state in self.states:
                self._database.path(f"histograms/{product}/State/{state}.parquet")

    # -- what there is ------------------------------------------------------------------------------------------------

    def levels(self, kind: str) -> list[str]:
        """Return the levels of a kind of geounit, the largest first, without the nation."""
        if kind == "tabulation":
            return list(TABULATION)
        if kind == "entities":
            return [name for name in OFF_SPINE if any(self.is_listed(kind, name, state) for state in self.states)]
        product = kind.removeprefix("spine_")
        return [level for level in self.manifest["products"][product]["geounits"] if level != US]

    @property
    def kinds(self) -> list[str]:
        """The kinds that the release has."""
        spines = [f"spine_{product}" for product in self.products]
        return ["tabulation", *(["entities"] if self.levels("entities") else []), *spines]

    def is_listed(self, kind: str, level: str, state: str) -> bool:
        """Return whether a level, or a family of entities, has geounits in a state."""
        return state in self.states and any(self._is_there(kind, one, level, state) for one in self.products_of(kind))

    def width(self, geounit: Geounit) -> int:
        """Return the number of digits of the codes of a geounit's level."""
        own = {**TABULATION, **OFF_SPINE} if geounit.kind in ("tabulation", "entities") else {}
        return own.get(geounit.level) or self._width(geounit.kind, geounit.level, geounit.state)

    def products_of(self, kind: str) -> tuple[str, ...]:
        """Return the products that are counted for a kind of geounit."""
        return (kind.removeprefix("spine_"),) if kind.startswith("spine") else self.products

    def exists(self, geounit: Geounit) -> bool:
        """Return whether the release has a geounit, inhabited or not."""
        if geounit.nation:
            return self.nation and geounit == self.top
        if geounit.kind not in self.kinds or geounit.state not in self.states:
            return False
        if geounit.level not in self.levels(geounit.kind):
            return False
        if geounit.kind == "tabulation" and len(geounit.code) != TABULATION[geounit.level]:
            return False
        return bool(self.rows(geounit.kind, geounit.level, geounit.state, "{code} = ?", [geounit.code]))

    @property
    def top(self) -> Geounit:
        """The nation."""
        return Geounit("tabulation", US, US, US)

    def name(self, geounit: Geounit) -> str:
        """Return the name of a geounit."""
        region = geounit.region
        return (region and self.names.get(region)) or plain_title(geounit)

    # -- counts -------------------------------------------------------------------------------------------------------

    def cells(self, geounit: Geounit, product: str) -> dict[int, int]:
        """Return the nonzero cells of a geounit's histogram."""
        path, code = self._source(geounit.kind, product, geounit.level, geounit.state)
        where, given = ("true", []) if geounit.nation else (f"{code} = ?", [geounit.code])
        return dict(
            self._database.ask(f"SELECT cell, sum(count)::BIGINT FROM {path} WHERE {where} GROUP BY cell", given)
        )

    def declared(self, geounit: Geounit) -> list[int] | None:
        """Return housing units and facilities by type, published without noise; None for off-spine entities."""
        if geounit.kind == "entities":
            return None
        product = self.products_of(geounit.kind)[0]
        if geounit.kind == "tabulation" and not geounit.nation and geounit.level != "State":
            path, code = self._invariants(product, "Block", geounit.state), PUBLIC_BLOCK
            where, given = f"starts_with({code}, ?)", [geounit.code]
        else:
            path = self._invariants(product, geounit.level, geounit.state)
            whole = geounit.kind == "tabulation"  # the parts of a state together, or the nation
            where, given = ("true", []) if whole else ("geounit = ?", [geounit.code])
        sums = ", ".join(f"sum({name})::BIGINT" for name in QUARTERS)
        ((first, *others),) = self._database.ask(f"SELECT {sums} FROM {path} WHERE {where}", given)
        return None if first is None else [first, *others]

    def rows(
        self,
        kind: str,
        level: str,
        state: str,
        where: str = "true",
        given: Iterable[Any] = (),
        *,
        order: str = "code",
        part: str = "",
    ) -> list[GeounitTotals[Geounit]]:
        """Return the geounits of a level in a state with their sums, including empty geounits."""
        codes = self._codes(kind, level, state)
        columns, joins = [], []
        for product, names in TOTALS.items():
            if product not in self.products_of(kind) or not self._is_there(kind, product, level, state):
                columns += [f'NULL AS "{name}"' for name in names]
                continue
            path, code = self._source(kind, product, level, state)
            condition = where.format(code=code)  # within the sums, to skip row groups
            sums = ", ".join(f'{_sum(product, count)} AS "{name}"' for name, count in names.items())
            own = f"SELECT {code} AS code, {sums} FROM {path} WHERE {condition} GROUP BY 1"
            joins.append(f"LEFT JOIN ({own}) USING (code)")
            columns += [f'coalesce("{name}", 0) AS "{name}"' for name in names]
        columns.append("NULL AS margin")
        if name := self._margins_of(kind, "persons", level, state):
            wider = f"margin * {widening()} AS margin"
            only = f"SELECT geounit AS code, {wider} FROM {self._database.source(name)} WHERE count = 'total'"
            joins.append(f"LEFT JOIN ({only}) USING (code)")
            columns[-1] = "margin"
        chosen = f"SELECT code FROM ({codes}) WHERE {where.format(code='code')}"
        query = f"SELECT code, {', '.join(columns)} FROM ({chosen}) {' '.join(joins)} ORDER BY {order} {part}"
        times = query.count("?") // max(1, where.count("?"))
        named = [name for names in TOTALS.values() for name in names]
        return [
            GeounitTotals(Geounit(kind, level, state, code), dict(zip(named, numbers, strict=True)), margin)
            for code, *numbers, margin in self._database.ask(query, list(given) * times)
        ]

    def parts(
        self, kind: str, product: ProductName, level: str, state: str, prefix: str, count: Count
    ) -> list[CountOfWhole]:
        """Return the geounits of a level and code prefix with their sums of all cells and of those of a count."""
        path, code = self._source(kind, product, level, state)
        part = _sum(product, count)
        own = f"SELECT {code} AS code, sum(count)::BIGINT AS total, {part} AS part FROM {path} GROUP BY 1"
        joins, margin = f"LEFT JOIN ({own}) USING (code)", "NULL"
        if name := self._margins_of(kind, product, level, state):
            only = f"SELECT geounit AS code, margin FROM {self._database.source(name)} WHERE count = 'total'"
            joins, margin = f"{joins} LEFT JOIN ({only}) USING (code)", f"margin * {widening()}"
        columns = f"code, coalesce(total, 0), coalesce(part, 0), {margin}"
        query = f"SELECT {columns} FROM ({self._codes(kind, level, state)}) {joins} WHERE starts_with(code, ?)"
        return [CountOfWhole(*row) for row in self._database.ask(query, [prefix])]

    def totals(self, geounit: Geounit) -> GeounitTotals[Geounit]:
        """Return the sums of one geounit."""
        if not geounit.nation:
            return self.rows(geounit.kind, geounit.level, geounit.state, "{code} = ?", [geounit.code])[0]
        found: dict[str, int | None] = {}
        for product, names in TOTALS.items():
            cells = self.cells(geounit, product) if product in self.products else None
            masks = {name: mask(SCHEMAS[product].axes, count.where) for name, count in names.items()}
            found |= {
                name: None if cells is None else sum(count for cell, count in cells.items() if counted[cell])
                for name, counted in masks.items()
            }
        return GeounitTotals(geounit, found)

    def number(self, kind: str, level: str, state: str, prefix: str = "") -> int:
        """Return how many geounits of a level and code prefix a state has."""
        query = f"SELECT count(*) FROM ({self._codes(kind, level, state)}) WHERE starts_with(code, ?)"
        ((number,),) = self._database.ask(query, [prefix])
        return int(number)

    def answers(self, geounit: Geounit) -> list[NoisyAnswer]:
        """Return the noisy answers of a spine geounit; none where the release has no measurements."""
        name = self._measured(geounit.kind, geounit.level, geounit.state)
        if name is None:
            return []
        rows = self._database.ask(
            f"SELECT {ANSWER} FROM {self._database.source(name)} WHERE geounit = ? ORDER BY len(value), query",
            [geounit.code],
        )
        return list(map(self._answer, rows))

    def margins(self, geounit: Geounit) -> list[EstimatedCount]:
        """Return the margins of a geounit's counts; none where the release has no margins."""
        found = []
        for product in self.products_of(geounit.kind):
            if name := self._margins_of(geounit.kind, product, geounit.level, geounit.state):
                query = f"SELECT {MARGIN} FROM {self._database.source(name)} WHERE geounit = ?"
                found += [
                    EstimatedCount(product, *row).at(widening()) for row in self._database.ask(query, [geounit.code])
                ]
        return found

    @property
    def has_margins(self) -> bool:
        """Whether the release has margins at all."""
        return any(name.startswith("margins/") for name in self.manifest["files"])

    @property
    def has_answers(self) -> bool:
        """Whether the release has noisy answers."""
        return any(name.startswith("measurements/") for name in self.manifest["files"])

    def has_margins_of(self, kind: str, level: str, state: str) -> bool:
        """Return whether the release has margins of the persons of a level."""
        return self._margins_of(kind, "persons", level, state) is not None

    def _margins_of(self, kind: str, product: str, level: str, state: str) -> str | None:
        """Return the file of the margins of a level; None where the release has none."""
        if product not in self.products_of(kind):
            return None
        name = f"margins/{product}/{'' if kind.startswith('spine') else kind + '/'}{level}/{state}.parquet"
        return name if name in self.manifest["files"] else None

    def _measured(self, kind: str, level: str, state: str) -> str | None:
        """Return the file of a spine level's noisy answers; None where the release has none."""
        name = f"measurements/{kind.removeprefix('spine_')}/{level}/{state}.parquet"
        return name if name in self.manifest["files"] else None

    def _answer(self, row: Any) -> NoisyAnswer:
        query, share, variance, number, first, above, below = row
        margin = _margin(self.gaussian, Fraction(int(above), int(below)), confidence().alpha)
        return NoisyAnswer(query, share, number, first if number == 1 else None, variance**0.5, margin)

    # -- around -------------------------------------------------------------------------------------------------------

    def above(self, geounit: Geounit) -> list[Geounit]:
        """Return the geounits that contain a geounit, the smallest first."""
        top = [self.top] if self.nation and not geounit.nation else []
        if not geounit.kind.startswith("spine"):
            return [*tabulation_above(geounit), *top]
        levels = self.levels(geounit.kind)
        above = levels[: levels.index(geounit.level)]
        found = [
            Geounit(geounit.kind, level, geounit.state, geounit.code[: self._width(geounit.kind, level, geounit.state)])
            for level in reversed(above)
        ]
        return [*found, *top]

    def levels_inside(self, geounit: Geounit) -> list[str]:
        """Return the levels within a geounit, the largest first."""
        if geounit.nation or geounit.kind == "entities":
            return []
        levels = self.levels(geounit.kind)
        return levels[levels.index(geounit.level) + 1 :]

    def on_spine(self, geounit: Geounit) -> list[Geounit]:
        """Return the other addresses of a block: on each product's spine, or as a tabulation block."""
        if geounit.level != "Block":
            return []
        public = geounit.code if geounit.kind == "tabulation" else geounit.code[-16:-5] + geounit.code[-4:]
        found = [Geounit("tabulation", "Block", geounit.state, public)]
        for product in self.products:
            path = self._invariants(product, "Block", geounit.state)
            rows = self._database.ask(f"SELECT geounit FROM {path} WHERE {PUBLIC_BLOCK} = ?", [public])
            found += [Geounit(f"spine_{product}", "Block", geounit.state, code) for (code,) in rows]
        return [one for one in found if one != geounit]

    def _find_width(self, kind: str, level: str, state: str) -> int:
        """Return the number of digits of a spine level's geocodes, which begin with those of the level above."""
        path = self._invariants(self.products_of(kind)[0], level, state)
        ((code,),) = self._database.ask(f"SELECT geounit FROM {path} LIMIT 1")
        return len(code)

    # -- files --------------------------------------------------------------------------------------------------------

    def _codes(self, kind: str, level: str, state: str) -> str:
        """Return the query for the codes of a level: of every geounit that has blocks."""
        if kind == "tabulation":
            path = self._invariants(self.products[0], "Block", state)
            return f"SELECT DISTINCT {PUBLIC_BLOCK}[:{TABULATION[level]}] AS code FROM {path}"
        if kind == "entities":
            there = [one for one in self.products if self._is_there(kind, one, level, state)]
            paths = [self._source(kind, product, level, state)[0] for product in there]
            return " UNION ".join(f"SELECT DISTINCT geounit AS code FROM {path}" for path in paths)
        return f"SELECT geounit AS code FROM {self._invariants(self.products_of(kind)[0], level, state)}"

    def _source(self, kind: str, product: str, level: str, state: str) -> tuple[str, str]:
        """Return the source of a level's histograms, and the SQL for the code of a row."""
        code = {"State": f"'{state}'", "Block": PUBLIC_BLOCK}.get(level, "geounit")
        return self._database.source(
            self._path(kind, product, level, state)
        ), code if kind == "tabulation" else "geounit"

    def _path(self, kind: str, product: str, level: str, state: str) -> str:
        own = kind in ("tabulation", "entities") and level not in (US, "State", "Block")
        return f"histograms/{product}/{kind + '/' if own else ''}{level}/{state}.parquet"

    def _is_there(self, kind: str, product: str, level: str, state: str) -> bool:
        return self._path(kind, product, level, state) in self.manifest["files"]

    def _invariants(self, product: str, level: str, state: str) -> str:
        return self._database.source(f"invariants/{product}/{level}/{state}.parquet")


def _sum(product: ProductName, count: Count) -> str:
    """Return the SQL of a count of a histogram's rows."""
    if not count.where:
        return "sum(count)::BIGINT"
    return f"(sum(count) FILTER ({sql_condition(SCHEMAS[product].axes, count.where)}))::BIGINT"


@lru_cache(maxsize=4096)
def _margin(gaussian: bool, parameter: Fraction, alpha: Fraction) -> int:
    law: Law = DiscreteGaussian(parameter) if gaussian else TwoSidedGeometric(parameter)
    check_law(law)
    return margin_of_error(law, alpha=alpha)
