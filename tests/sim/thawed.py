"""Frozen values that are made as fast as others. # D2

A frozen dataclass sets each of its fields through ``object.__setattr__``, and ``dataclasses.replace`` looks at all of them anew each time. A schedule makes a
thousand such values, which takes a seventh of its time. The type checker shows that nobody changes one; so in this process they are no longer kept from it,
their fields are set as any others are, and each class has a copier of its own.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

_COPIERS: dict[type, Callable[[Any, dict[str, Any]], Any]] = {}


def thaw(packages: tuple[str, ...]) -> None:
    """All frozen dataclasses of these packages, as far as they are imported, for the rest of this process."""
    for name, module in list(sys.modules.items()):
        if name.startswith(packages):
            for found in list(vars(module).values()):
                if isinstance(found, type) and found.__module__ == name and _is_frozen(found):
                    _thaw(found)
                    _COPIERS[found] = _copier(found)
            if vars(module).get("replace") is dataclasses.replace:
                vars(module)["replace"] = _replaced


def _replaced(value: Any, /, **changes: Any) -> Any:
    copier = _COPIERS.get(type(value))
    return dataclasses.replace(value, **changes) if copier is None else copier(value, changes)


def _copier(cls: type) -> Callable[[Any, dict[str, Any]], Any]:
    """What ``dataclasses.replace`` does, for values that are checked by nothing but their types."""
    assert not hasattr(cls, "__post_init__")
    names = [field.name for field in dataclasses.fields(cls)]
    lines = [f"    made.{name} = changes[{name!r}] if {name!r} in changes else value.{name}" for name in names]
    scope: dict[str, Any] = {"cls": cls, "new": cls.__new__}
    text = "\n".join(["def copied(value, changes):", "    made = new(cls)", *lines, "    return made"])
    exec(text, scope)  # noqa: S102 - made of the fields' names
    return scope["copied"]  # type: ignore[no-any-return]


def _is_frozen(cls: type) -> bool:
    parameters = vars(cls).get("__dataclass_params__")
    return parameters is not None and parameters.frozen and "__setattr__" in vars(cls)


def _thaw(cls: Any) -> None:
    scope: dict[str, Any] = {}
    positional: list[str] = []
    named: list[str] = []
    body: list[str] = []
    for field in dataclasses.fields(cls):
        at, value = field.name, field.name
        if field.default is not dataclasses.MISSING:
            scope[f"_default_{at}"] = field.default
            parameter = f"{at}=_default_{at}"
        elif field.default_factory is not dataclasses.MISSING:
            scope[f"_make_{at}"], scope["_missing"] = field.default_factory, dataclasses.MISSING
            parameter, value = f"{at}=_missing", f"_make_{at}() if {at} is _missing else {at}"
        else:
            parameter = at
        if field.init:
            (named if field.kw_only else positional).append(parameter)
        else:
            value = f"_make_{at}()" if f"_make_{at}" in scope else f"_default_{at}"
        body.append(f"    self.{at} = {value}")
    parameters = ", ".join(["self", *positional, *(["*", *named] if named else [])])
    exec(f"def __init__({parameters}):\n" + "\n".join(body or ["    pass"]), scope)  # noqa: S102 - made of the fields' names
    del cls.__setattr__, cls.__delattr__
    cls.__init__ = scope["__init__"]
