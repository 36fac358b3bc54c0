"""Prevents core dumps, which would contain the secrets of all configurations."""

from __future__ import annotations


def leave_no_core() -> None:
    """Forbid core dumps of this process and of its children."""
    import resource  # noqa: PLC0415  missing on some systems

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
