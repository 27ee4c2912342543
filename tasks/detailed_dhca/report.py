"""report.html: the manifest as a page that a review board can read. Nothing in it that the manifest does not hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape

REPORT = "report.html"


def write_report(out: Path, manifest: dict[str, Any]) -> None:
    """Write OUT/report.html from the manifest's content."""
    environment = Environment(
        loader=PackageLoader("tasks.detailed_dhca", "."), autoescape=select_autoescape(), trim_blocks=True
    )
    page = environment.get_template(REPORT).render(manifest=manifest, rows=_rows(manifest))
    (out / REPORT).write_text(page)


def _rows(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """One row a population group level: its groups, its noise, what was published."""
    rows = []
    for name, level in manifest["levels"].items():
        published = level["groups_published"]
        queries = level.get("queries", {})
        rows.append(
            {
                "level": name,
                "regions": level["regions"],
                "iterations": level["iterations"],
                "groups": level["groups"],
                "published": sum(published.values()),
                "by_detail": published,
                "suppressed_up_to": level["suppressed_up_to"],
                "thresholds": level["thresholds"],
                "budget": queries["total_only"]["budget"] if queries else None,
                "stability": level.get("stability"),
                "estimates": manifest.get("estimates", {}).get(name),
                "deviation": {query: told["variance"] ** 0.5 for query, told in queries.items()},
            }
        )
    return rows
