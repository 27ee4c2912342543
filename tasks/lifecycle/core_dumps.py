"""A process that has persons or the run's secret in its memory leaves no image of it when it dies."""

from __future__ import annotations

import resource


def no_core_dumps() -> None:
    """Allow this process, and what it starts, no core dump.

    The kernel then writes none. A handler that it pipes dumps to is not bound by the limit (core(5)): systemd-coredump
    heeds it, others may not, and are to be switched off where real persons are (docs/privacy.md).
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
