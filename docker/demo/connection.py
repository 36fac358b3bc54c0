"""How the demo reaches its source: whoever needs a session is given a function that opens one."""

from collections.abc import Callable
from typing import Any

Connect = Callable[[], Any]
"""Opens a PyMySQL connection; PyMySQL has no types of its own."""
