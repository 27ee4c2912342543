"""Send requests to a Prefect server on this machine directly, whatever proxy the environment names."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlsplit


def reach_loopback_directly() -> None:
    """Make Prefect's clients ignore the environment's proxies if their server is on this machine.

    httpx fails before any request if it lacks a package for a SOCKS proxy, or cannot parse a range in NO_PROXY, so
    setting NO_PROXY is not enough. Other requests, for example for inputs by URL, still use the environment's proxies.
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
    """Return whether a host name or address is this machine's loopback."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, which may resolve to any machine
        return False
