"""The systems as Prefect flows. Their stages are in other files, so that `das truth` need not import Prefect.

Retried or started again under the same run id, a flow continues its own run: the same noise, one charge, one release.
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
    """Run SafeTab-P and release its tables; returns the release's path, or a list of paths for both jurisdictions.

    A jurisdiction without blocks, or switched off by config.json, is skipped and charges nothing. Returns None if
    nothing is released.
    """
    return carry_out(settings)


@flow(name=DetailedDhcbSettings.SYSTEM, **flow_options(4))
def detailed_dhcb(settings: DetailedDhcbSettings) -> Any:
    """Run SafeTab-H and release its tables; returns the release's path, or a list of paths for both jurisdictions.

    A jurisdiction without blocks, or switched off by config.json, is skipped and charges nothing. Returns None if
    nothing is released.
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


@flow(name=DeclaredSettings.SYSTEM, **flow_options(2))
def declared(settings: DeclaredSettings) -> Any:
    """Release the histograms of a declaration by the TopDown Algorithm; returns the release's path."""
    return carry_out(settings)


@flow(name=SDhcSettings.SYSTEM, **flow_options(1))
def s_dhc(settings: SDhcSettings) -> Any:
    """Release the tables PH1 to PH8 of the Supplemental DHC for one jurisdiction; returns the release's path."""
    return carry_out(settings)
