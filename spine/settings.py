"""The settings of the 2020 production runs (paper, section 6), and the paper's settings where they differ.

docs/spec/spine.md describes the programs' choices and their sources.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, Literal, get_type_hints

from spine.geography import AIAN_CLASSES, PUERTO_RICO

Jurisdiction = Literal["us", "pr"]
Variant = Literal["production", "paper"]
Definition = Literal["zcdp", "puredp"]  # as in privacy.noise.laws, which this room does not import

STRONG_MCD_STATES = (9, 23, 25, 26, 27, 33, 34, 36, 42, 44, 50, 55)
PRODUCTION_AIAN = (
    "legal federally recognized",
    "joint use",
    "Hawaiian home land",
    "OTSA",
    "joint-use OTSA",
    "ANVSA",
    "state-recognized legal",
)
ENTITIES = ("pme", "aian", "gq", "sd", "cbg", "place", "mcd")
PRODUCTS = ("pl94-persons", "pl94-units", "dhc-persons", "dhc-units")


@dataclass(frozen=True)
class SpineSettings:
    """Every choice that shapes a spine; each field is annotated with where its value comes from."""

    product: Annotated[str, "paper section 6: the run whose allocations and levels these are"] = "pl94-persons"
    jurisdiction: Annotated[
        Jurisdiction, "paper section 6, footnote 8: US, or PR whose root stands at the level of a state"
    ] = "us"
    variant: Annotated[Variant, "docs/spine.md: where paper and production program differ"] = "production"
    levels: Annotated[tuple[str, ...], "paper section 6"] = ()
    entities: Annotated[tuple[str, ...], "paper section 6: the OSEs that optimized block groups do not straddle"] = ()
    aian_split: Annotated[bool, "paper section 1: each state splits into its AIAN areas and the rest (US only)"] = True
    aian_classes: Annotated[tuple[str, ...], "programs, [geodict] aian_areas: without TDSA and SDTSA"] = PRODUCTION_AIAN
    redefine_counties: Annotated[
        Literal["nowhere", "in_strong_mcds", "everywhere"],
        "programs: AIAN areas as counties of their own; 'nowhere' in production",
    ] = "nowhere"
    strong_mcd_states: Annotated[tuple[int, ...], "paper section 6: CT ME MA MI MN NH NJ NY PA RI VT WI"] = (
        STRONG_MCD_STATES
    )
    occupied_only: Annotated[bool, "programs: a block without housing unit and group quarters is on no spine"] = True
    fanout_cutoff: Annotated[int, "programs: table_reader.py, set by no production config"] = 12
    cap_extra: Annotated[int, "programs: floor(sqrt(n) + cutoff) + 1; paper: + 0"] = 1
    division: Annotated[
        Literal["runs", "even"], "programs: group_type 'orig' in production, 'even' as DHC's option"
    ] = "runs"
    subset_by_aian_area: Annotated[bool, "paper section 6: tract subsets within each AIAN area; programs: no"] = False
    subset_groups_by_entity: Annotated[bool, "paper section 6: groups within an OSE; programs: consecutive chunks"] = (
        False
    )
    tract_groups: Annotated[bool, "paper, Algorithm 2: tract groups; in no 2020 production run"] = False
    tract_group_share: Annotated[Fraction, "ours: the part of the tracts' share that tract groups get"] = Fraction(1, 2)
    tract_group_cap_extra: Annotated[int, "redistricting program and paper: int(sqrt(n) + cutoff)"] = 0
    entity_threshold: Annotated[
        int, "programs: entities no further than this are left out of the objective; paper: 0"
    ] = 9
    objective_at: Annotated[
        Literal["county", "root"], "programs: OSED in Algorithm 2 at the county; paper: at the root"
    ] = "county"
    objective: Annotated[tuple[str, ...], "programs: families in Algorithm 2's objective; paper: all OSEs"] = (
        "pme",
        "aian",
    )
    objective_outside: Annotated[bool, "paper: the regions outside all entities are OSEs; programs: not"] = False
    premerge: Annotated[bool, "programs: tracts with equal sets of OSEs are merged before the greedy; paper: not"] = (
        True
    )
    definition: Annotated[Definition, "paper section 5: production is zCDP"] = "zcdp"
    split: Annotated[tuple[str, ...], "programs: levels that a pure-DP bypass may split; never the root"] = ()
    bypass_cutoff: Annotated[
        int | None, "programs: pure DP, fan-out above the bypassed parent stays within it; paper: any"
    ] = 150
    exact_bypass: Annotated[bool, "ours: the exact condition for unequal shares instead of the paper's minimum"] = False
    geocode_widths: Annotated[
        Literal["nation", "run"],
        "programs: as wide as the run's largest number; ours: at least as the nation's redistricting runs",
    ] = "nation"

    @property
    def states_covered(self) -> str:
        """The states that belong to this jurisdiction, in words."""
        return "Puerto Rico" if self.jurisdiction == "pr" else "the 50 states and DC (Puerto Rico is jurisdiction pr)"

    @classmethod
    def sources(cls) -> dict[str, str]:
        """Return the source of each field's value, under the names of `described`."""
        hints = get_type_hints(cls, include_extras=True)
        return dict(zip(cls().described(), (hint.__metadata__[0] for hint in hints.values()), strict=True))

    def described(self) -> dict[str, Any]:
        """Return the fields by their names in files, where the jurisdiction is `region`, the definition `mechanism`."""
        names = {"jurisdiction": "region", "definition": "mechanism"}
        return {names.get(name, name): value for name, value in asdict(self).items()}

    def covers(self, state: int) -> bool:
        """Return whether a state belongs to this run's jurisdiction."""
        return (state == PUERTO_RICO) == (self.jurisdiction == "pr")


def settings_for(
    product: str, jurisdiction: Jurisdiction = "us", variant: Variant = "production", **changes: Any
) -> SpineSettings:
    """Return the settings of one run of section 6; keyword arguments change single fields.

    Raises ValueError for an unknown product, jurisdiction or variant, and for values that allow no spine.
    """
    if product not in PRODUCTS or jurisdiction not in ("us", "pr") or variant not in ("production", "paper"):
        raise ValueError(f"no settings {product} / {jurisdiction} / {variant}: products are {', '.join(PRODUCTS)}")
    dhc = product.startswith("dhc")
    settings = SpineSettings(
        product=product, jurisdiction=jurisdiction, variant=variant, aian_split=jurisdiction == "us"
    )
    if product == "pl94-persons":
        settings = replace(settings, entities=("pme", "aian", "gq"))
    elif product == "pl94-units":
        settings = replace(settings, entities=("pme", "aian"))
    elif variant == "production":
        settings = replace(settings, entities=("aian", "gq", "sd", "cbg"))
    else:
        settings = replace(settings, entities=("sd", "cbg"), subset_by_aian_area=True, subset_groups_by_entity=True)
    if variant == "paper":
        settings = replace(
            settings,
            cap_extra=0,
            entity_threshold=0,
            objective=settings.entities,
            objective_at="root",
            objective_outside=True,
            premerge=False,
            bypass_cutoff=None,
        )
    settings = replace(settings, **changes)
    settings = replace(settings, **{"levels": _levels(settings, dhc)} | changes)
    # Levels that a pure-DP bypass may split: county and below (redistricting), below the county (DHC), all (paper).
    kept: tuple[str, ...] = () if variant == "paper" else ("State", "County") if dhc else ("State",)
    split = tuple(level for level in settings.levels[1:-1] if level not in kept)
    settings = replace(settings, **{"split": split} | changes)
    _check(settings, dhc)
    return settings


def _check(settings: SpineSettings, dhc: bool) -> None:
    for name in ("fanout_cutoff", "cap_extra", "tract_group_cap_extra", "entity_threshold"):
        if getattr(settings, name) < 0:
            raise ValueError(f"{name} must not be below 0; it is {getattr(settings, name)}")
    for name in ("entities", "objective"):
        if unknown := sorted(set(getattr(settings, name)) - set(ENTITIES)):
            raise ValueError(f"{name}: there is no OSE {', '.join(unknown)}; choose from {', '.join(ENTITIES)}")
    known = [name for _, _, name in AIAN_CLASSES]
    if unknown := sorted(set(settings.aian_classes) - set(known)):
        raise ValueError(f"there is no class of AIAN areas {', '.join(unknown)}; choose from {', '.join(known)}")
    if settings.tract_groups and dhc:
        raise ValueError("the DHC spines have no tracts, so they have no tract groups: set tract_groups=false")
    if not 0 < settings.tract_group_share < 1:
        raise ValueError(f"tract_group_share must lie between 0 and 1; it is {settings.tract_group_share}")


def _levels(settings: SpineSettings, dhc: bool) -> tuple[str, ...]:
    middle: tuple[str, ...] = ("Prim", "Tract_Subset_Group", "Tract_Subset")
    if not dhc:
        middle = ("Tract_Group", "Tract") if settings.tract_groups else ("Tract",)
    top = ("US",) if settings.jurisdiction == "us" else ()
    return (*top, "State", "County", *middle, "Block_Group", "Block")
