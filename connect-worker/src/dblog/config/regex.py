r"""Java's regular expressions in Python's spelling, as far as the two differ in what people write into include lists.

``\\Q...\\E`` quotes; named groups have no ``P``. Possessive quantifiers and atomic groups are the same since Python 3.11. What is left
(``\\p{...}`` classes) does not compile, and so is refused by name instead of matching something else.
"""

from __future__ import annotations

import re

_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|$)")
_NAMED = re.compile(r"\(\?<([A-Za-z]\w*)>")


def from_java(pattern: str) -> str:
    """The same pattern for Python's ``re``."""
    quoted = _QUOTED.sub(lambda found: re.escape(found[1]), pattern)
    return _NAMED.sub(r"(?P<\1>", quoted)
