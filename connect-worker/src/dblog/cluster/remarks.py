"""Remarks about an acceptable configuration that the configuration alone shows. No server is asked.

The answer of POST and PUT reports them once, in a header. The connector's status shows them as long
as the configuration has them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dblog.config import inline_secrets
from dblog.config.insecure_choices import described, insecure_choices
from dblog.config.large_values import large_values
from dblog.config.other_defaults import other_defaults
from dblog.config.placeholders import refused_placeholders
from dblog.config.plugins import Plugin
from dblog.config.secret_values import shown_name
from dblog.config.unknown_keys import describe_unknown, unknown_keys, without_effect
from dblog.transforms.configuration import configured

_NEVER_READ = "no effect here: this connector keeps no such history, and neither does Debezium's; the key can be removed"

_SHOWN_PLACEHOLDER = (
    "it has a placeholder, whose value every reader would see. A configuration stored by an older version goes on with it; "
    "its next change is refused until the value itself is written there"
)


@dataclass(frozen=True, slots=True)
class Remarks:
    """Remarks about an acceptable configuration.

    ``ordinary`` ones apply to many sound configurations and need no action.
    """

    doubts: tuple[str, ...] = ()
    ordinary: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """All remarks, doubts first, so that a limit cuts off ordinary ones."""
        return (*self.doubts, *self.ordinary)


def remarks_on(plugin: Plugin, properties: Mapping[str, str | None]) -> list[str]:
    """Return a sentence for each unknown key, key without effect, default that is not Debezium's,
    value that takes much from other connectors, placeholder that is refused today, and insecure
    choice. Secrets are not hidden yet.
    """
    read = plugin.read_keys(properties)
    options = (*plugin.options, *configured(read).options)
    found = describe_unknown(unknown_keys(options, read)) | without_effect(options, read) | other_defaults(plugin.options, read)
    found |= large_values(plugin.options, read)
    found |= dict.fromkeys(refused_placeholders(plugin.options, read), _SHOWN_PLACEHOLDER)
    found |= {name: _NEVER_READ for name in properties if name not in read}
    return [f"{shown_name(name)}: {text}" for name, text in found.items()] + _insecure(plugin, properties)


def written_out(plugin: Plugin, properties: Mapping[str, str | None], providers: Collection[str]) -> list[str]:
    """Return one sentence for all secrets written out in the configuration, or an empty list."""
    keys = inline_secrets.inline_secret_keys(plugin.options, properties)
    return [inline_secrets.described(keys, providers)] if keys else []


def ordinary(plugin: Plugin, properties: Mapping[str, str | None]) -> list[str]:
    """Return those of ``doubts`` that many sound configurations have.

    They are defaults that are not Debezium's, and insecure choices such as Debezium's default for
    TLS. Secrets are not hidden yet.
    """
    read = plugin.read_keys(properties)
    return [f"{shown_name(name)}: {text}" for name, text in other_defaults(plugin.options, read).items()] + _insecure(plugin, properties)


def _insecure(plugin: Plugin, properties: Mapping[str, str | None]) -> list[str]:
    return [described({name: choice}) for name, choice in insecure_choices(plugin.options, properties).items()]
