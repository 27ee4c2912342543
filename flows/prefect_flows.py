"""The systems as Prefect flows, whose stages are in files of their own, so that `das truth` need not import Prefect.

Retried or started again under the same run id, each flow takes up its own run: the same noise, one charge, one release.
"""

from __future__ import annotations

from typing import Any

from prefect import flow

from flows.execution.bottom_up_settings import BottomUpSettings
from flows.execution.run import carry_out, flow_options
from flows.execution.s_dhc_settings import SDhcSettings
from flows.execution.safetab_settings import DetailedDhcaSettings, DetailedDhcbSettings
from flows.execution.top_down_settings import DeclaredSettings, TopDownSettings


@flow(name=DetailedDhcaSettings.SYSTEM, **flow_options(4))
def detailed_dhca(settings: DetailedDhcaSettings) -> Any:
    """Run SafeTab-P and release its tables; returns the release's path, of both jurisdictions a list of paths.

    A jurisdiction that has no block or that config.json switches off is skipped and charges nothing; returns None
    where nothing is released.
    """
    return carry_out(settings)


@flow(name=DetailedDhcbSettings.SYSTEM, **flow_options(4))
def detailed_dhcb(settings: DetailedDhcbSettings) -> Any:
    """Run SafeTab-H and release its tables; returns the release's path, of both jurisdictions a list of paths.

    A jurisdiction that has no block or that config.json switches off is skipped and charges nothing; returns None
    where nothing is released.
    """
    return carry_out(settings)


@flow(name=TopDownSettings.SYSTEM, **flow_options(2))
def top_down(settings: TopDownSettings) -> Any:
    """Run the TopDown Algorithm over one jurisdiction; returns the path of its release."""
    return carry_out(settings)


@flow(name=BottomUpSettings.SYSTEM, **flow_options(1))
def bottom_up(settings: BottomUpSettings) -> Any:
    """Release a noisy histogram and its marginals; returns the release's path."""
    return carry_out(settings)


@flow(name=DeclaredSettings.SYSTEM, **flow_options(1))
def declared(settings: DeclaredSettings) -> Any:
    """Release the histograms of a declaration by the TopDown Algorithm; returns the release's path."""
    return carry_out(settings)


@flow(name=SDhcSettings.SYSTEM, **flow_options(1))
def s_dhc(settings: SDhcSettings) -> Any:
    """Release the tables PH1 to PH8 of the Supplemental DHC for one jurisdiction; returns the release's path."""
    return carry_out(settings)
