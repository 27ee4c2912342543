"""Requests to a Prefect server on this machine go there directly, whatever proxy the environment names."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlsplit


def reach_loopback_directly() -> None:
    """Have Prefect's clients read no proxies from the environment where their server is on this machine.

    httpx fails before any request where it lacks a package for a SOCKS proxy, or cannot parse a range in NO_PROXY. So
    no value of NO_PROXY would do. Other requests, as for inputs by URL, keep the environment's proxies.
    """
    from prefect.client import orchestration

    for name in ("PrefectHttpxSyncClient", "PrefectHttpxAsyncClient"):
        client = getattr(orchestration, name)
        if not hasattr(client, "__wrapped__"):
            setattr(orchestration, name, _direct(client))


def _direct(client: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(client, updated=())
    def make(*arguments: Any, **settings: Any) -> Any:
        host = urlsplit(str(settings.get("base_url", ""))).hostname or ""
        return client(*arguments, **{"trust_env": not is_loopback(host), **settings})

    return make


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, by its loopback's name or address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, which could be anyone's
        return False
