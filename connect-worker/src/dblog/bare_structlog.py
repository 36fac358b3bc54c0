"""Imports structlog without rich, for programs of which many are started.

structlog imports rich, and with it Pygments, wherever they are installed, and the command line's
library brings them along. It would use them for coloured tracebacks, which ``observe/logs.py`` does
not write. Each start of a task would spend a sixth of its CPU on them. So a program imports this
module before any other that imports structlog; rich itself can be imported afterwards.
"""

from __future__ import annotations

import sys

if "structlog" not in sys.modules and "rich" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]  # an import of it fails (Python reference, "The module cache")
    try:
        import structlog as structlog  # noqa: PLC0414  for its effect
    finally:
        del sys.modules["rich"]
