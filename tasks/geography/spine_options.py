"""A user's options for a spine: settings by name, and an allocation file."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from privacy.noise.exact import exact_number, quoted_number
from spine.allocations import Allocation
from spine.fault_words import fault_words
from spine.hierarchy import common_denominator
from spine.production import allocation_for
from spine.settings import Jurisdiction, SpineSettings, Variant, settings_for
from tasks.errors import Refused, refusing
from tasks.lifecycle.annotations import resolve_alias
from tasks.records.files import file_name, read_text

NOTES = ("source", "sigma2")  # keys of a file that say where shares come from and what follows from them: not read
SMALLEST_BUDGET, LARGEST_BUDGET = Fraction("1e-9"), Fraction("1e9")


def read_settings(
    product: str, jurisdiction: Jurisdiction, variant: Variant, changes: Mapping[str, str]
) -> SpineSettings:
    """Return the settings of a run, with single fields changed by name; values are text, lists separated by commas.

    Raises Refused for an unknown name or an invalid value.
    """
    hints = {name: resolve_alias(kind) for name, kind in get_type_hints(SpineSettings).items()}
    unknown = sorted(set(changes) - set(hints))
    if unknown:
        raise Refused(f"unknown spine settings {', '.join(unknown)}; known are {', '.join(hints)}")
    if fixed := sorted(set(changes) & {"product", "jurisdiction", "variant", "levels"}):
        raise Refused(
            f"{', '.join(fixed)} cannot be set: it follows from the product, the jurisdiction and the variant"
        )
    parsed: dict[str, Any] = {}
    for name, text in changes.items():
        value: Any = text
        if get_origin(hints[name]) is tuple:
            value = [part.strip() for part in text.split(",") if part.strip()]
        elif hints[name] is Fraction:
            with refusing(name):
                value = quoted_number(text)
        elif type(None) in get_args(hints[name]) and text.lower() in ("", "none"):
            value = None
        try:
            parsed[name] = TypeAdapter(hints[name]).validate_python(value)
        except ValidationError as error:
            raise Refused(f"{name}={text}: {fault_words(error.errors()[0])}") from error
    with refusing():
        return settings_for(product, jurisdiction, variant, **parsed)


def read_allocation(
    source: str | None, budget: str | None, settings: SpineSettings, option: str = "--budget"
) -> Allocation:
    """Return the allocation of the settings' production run, or of a JSON file; with another budget if given.

    The file has exact fractions as text: {"rho" or "epsilon": .., "geolevel": {level: ..}, "query_within_geolevel":
    {query: {level: ..}}}; a query that is missing, or NaN, is not asked on that level. Raises Refused.
    """
    try:
        amount = None if budget is None else exact_number(budget)
        if amount is not None and not SMALLEST_BUDGET <= amount <= LARGEST_BUDGET:
            raise ValueError(f"it must be a number from {float(SMALLEST_BUDGET):g} to {float(LARGEST_BUDGET):g}")
        if source is None:
            return allocation_for(settings, amount)
        given = json.loads(read_text(source))
        measure = "rho" if settings.definition == "zcdp" else "epsilon"
        if amount is None and measure not in given:
            raise Refused(f"{source}: {settings.definition} needs '{measure}'")
        budgets = [measure] if measure in given else ["rho", "epsilon"]  # `amount` replaces either
        _check_names("key", given, [*budgets, "geolevel", "query_within_geolevel", *NOTES])
        for shares in (given["geolevel"], *given["query_within_geolevel"].values()):
            _check_names("level", shares, settings.levels)
        levels = {level: quoted_number(str(share)) for level, share in given["geolevel"].items()}
        queries = {
            level: {
                query: quoted_number(str(shares[level]))
                for query, shares in given["query_within_geolevel"].items()
                if shares.get(level) not in (None, "NaN")
            }
            for level in levels
        }
        common_denominator(list(levels.values()))
        return Allocation(
            settings.definition, amount or quoted_number(str(given[measure])), levels, queries, file_name(source)
        )
    except KeyError as error:
        raise Refused(f"{source}: the key {error} is missing") from error
    except (ValueError, RecursionError) as error:
        raise Refused(f"{source or f'{option} {budget}'}: {error}") from error
    except (TypeError, AttributeError):
        raise Refused(f"{source} is not an allocation: an object of exact fractions as text, by level") from None


def _check_names(what: str, named: Mapping[str, object], known: Collection[str]) -> None:
    if unknown := sorted(named.keys() - set(known)):
        raise ValueError(f"unknown {what} {unknown[0]!r:.60}: one of {', '.join(known)}")
