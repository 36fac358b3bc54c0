"""The go.mod of a program that is compiled from the published module of Kubernetes.

Kubernetes asks for its own parts (`k8s.io/api` and some thirty more) at version 0.0.0, found in its staging folder; the module that is published has no
such folder. Each part is published as a module of its own, whose version v0.N.P belongs to Kubernetes v1.N.P, and is named here by `replace`. The list of
parts is read from the published go.mod, so that another version needs no other list.
"""

import re

_PART = re.compile(r"^\s*(k8s\.io/[\w-]+) => \./staging/", re.MULTILINE)
_SETTING = re.compile(r"^(?:go [\d.]+|godebug default=\S+|\tdefault=\S+)$", re.MULTILINE)


def go_mod(published: str, *, version: str) -> str:
    """Text of a go.mod that requires Kubernetes `version` ("1.34.4"); `published` is the go.mod of that version's module."""
    parts = _PART.findall(published)
    assert parts, "the go.mod of Kubernetes replaces none of its parts: it is made in another way than it was"
    part_version = "v0." + version.removeprefix("1.")
    settings = [setting if not setting.startswith("\t") else f"godebug {setting.strip()}" for setting in _SETTING.findall(published)]
    return "\n".join(
        [
            "module kubernetes",
            "",
            *settings,
            "",
            f"require k8s.io/kubernetes v{version}",
            "",
            *(f"replace {part} => {part} {part_version}" for part in parts),
            "",
        ]
    )
