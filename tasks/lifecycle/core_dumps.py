"""No core dumps: a process that dies must not write persons or the run's secret from its memory to a disk."""

from __future__ import annotations

import resource


def no_core_dumps() -> None:
    """Forbid core dumps of this process and of those that it starts.

    The kernel then writes none. A handler that it pipes dumps to is not bound by the limit (core(5)): systemd-coredump
    heeds it, others may not, and are to be switched off where real persons are (docs/privacy.md).
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
