"""Doubts about a configuration that can be accepted, as far as the configuration alone shows them: nobody is asked.

The answer of POST and PUT reports them once, in its header; the connector's status shows them for as long as the configuration is so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dblog.config import inline_secrets
from dblog.config.insecure_choices import described, insecure_choices
from dblog.config.other_defaults import other_defaults
from dblog.config.plugins import Plugin
from dblog.config.secret_values import shown_name
from dblog.config.unknown_keys import describe_unknown, unknown_keys, without_effect

_NEVER_READ = "no effect here: this connector keeps no such history, and neither does Debezium's; the key can be removed"


@dataclass(frozen=True, slots=True)
class Remarks:
    """What a configuration is answered that can be accepted. ``ordinary``: sentences that many a sound configuration gets; nobody need act on them."""

    doubts: tuple[str, ...] = ()
    ordinary: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """All of them, doubts first: whatever is bounded must not leave out a doubt for an ordinary remark."""
        return (*self.doubts, *self.ordinary)


def doubts(plugin: Plugin, properties: Mapping[str, str | None]) -> list[str]:
    """Return a sentence for each unknown key, each key without effect, each default that is not Debezium's, and each insecure choice. Secrets are not hidden
    yet.
    """
    read = plugin.read_keys(properties)
    found = (
        describe_unknown(unknown_keys(plugin.options, read)) | without_effect(plugin.options, read) | other_defaults(plugin.options, read)
    )
    found |= {name: _NEVER_READ for name in properties if name not in read}
    return [f"{shown_name(name)}: {text}" for name, text in found.items()] + _insecure(plugin, properties)


def written_out(plugin: Plugin, properties: Mapping[str, str | None], providers: Collection[str]) -> list[str]:
    """Return one sentence for all secrets that stand in the configuration as they are, if there are any."""
    keys = inline_secrets.inline_secret_keys(plugin.options, properties)
    return [inline_secrets.described(keys, providers)] if keys else []


def ordinary(plugin: Plugin, properties: Mapping[str, str | None]) -> list[str]:
    """Return those of ``doubts`` that many a sound configuration has: defaults that are not Debezium's, and insecure choices, such as Debezium's default for
    TLS. Secrets are not hidden yet.
    """
    read = plugin.read_keys(properties)
    return [f"{shown_name(name)}: {text}" for name, text in other_defaults(plugin.options, read).items()] + _insecure(plugin, properties)


def _insecure(plugin: Plugin, properties: Mapping[str, str | None]) -> list[str]:
    return [described({name: choice}) for name, choice in insecure_choices(plugin.options, properties).items()]
