"""Lets a person change a text in the editor that VISUAL or EDITOR names, else in vi."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from dblog.errors import DefiniteError


def edited(text: str, environment: Mapping[str, str]) -> str:
    """Return the text as it was left. Raise DefiniteError if the editor does not run or fails.

    The file is the person's alone, and removed afterwards: a configuration may have passwords.
    """
    command = shlex.split(environment.get("VISUAL") or environment.get("EDITOR") or "vi")
    descriptor, name = tempfile.mkstemp(prefix="dblog-", suffix=".json")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([*command, name], check=False)  # noqa: S603  the person's own editor
        if done.returncode:
            raise DefiniteError(f"the editor {command[0]} ended with status {done.returncode}; nothing was changed")
        return Path(name).read_text(encoding="utf-8")
    except OSError as e:
        raise DefiniteError(f"the editor {command[0]} does not run: {e.strerror}; name another in EDITOR") from e
    except UnicodeDecodeError as e:
        raise DefiniteError("the edited text is not UTF-8 text; nothing was changed") from e
    finally:
        Path(name).unlink(missing_ok=True)
