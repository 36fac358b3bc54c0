"""Keeps the process from leaving a core dump, which would hold the secrets of all configurations."""

from __future__ import annotations


def leave_no_core() -> None:
    """Forbid core dumps of this process and of those that it starts."""
    import resource  # noqa: PLC0415  not on every system

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
