"""A version of a release, in the spelling of each kind of package."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stack.errors import StackError

_NUMBER = r"(?:0|[1-9]\d{0,8})"
_VERSION = re.compile(rf"({_NUMBER}\.{_NUMBER}\.{_NUMBER})(?:-rc\.({_NUMBER}))?")


@dataclass(frozen=True, slots=True)
class Version:
    """A version such as 1.4.0, or 1.4.0-rc.1 before it."""

    text: str
    """The version as Semantic Versioning spells it, for the chart and the images."""

    @classmethod
    def parse(cls, text: str) -> Version:
        """Parse a version. Raise StackError if images, chart and wheels cannot all have it."""
        if _VERSION.fullmatch(text) is None:
            raise StackError(
                f"VERSION={text!r} is no version that images, chart and wheels can all have."
                " Name one such as 1.4.0, or 1.4.0-rc.1 for a release candidate"
            )
        return cls(text)

    @property
    def python(self) -> str:
        """The version as PEP 440 spells it, for the wheels."""
        return self.text.replace("-rc.", "rc")

    @property
    def is_candidate(self) -> bool:
        return "-" in self.text
