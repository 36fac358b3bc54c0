"""Client settings that a connector may override: Kafka Connect's policies, by name or class.

They govern ``producer.override.*``, ``consumer.override.*`` and ``admin.override.*``. Source:
``org.apache.kafka.connect.connector.policy`` of Kafka 4.2. Allowlist is KIP-1188's, with an empty
list as its default.
"""

from __future__ import annotations

from dataclasses import dataclass

from dblog.config.options import Settings

POLICY = "connector.client.config.override.policy"
ALLOWLIST = "connector.client.config.override.allowlist"

_NAMES = ("All", "Allowlist", "None", "Principal")
_SUFFIX = "ConnectorClientConfigOverridePolicy"
_PACKAGE = "org.apache.kafka.connect.connector.policy."
POLICY_CHOICES = tuple(spelling for name in _NAMES for spelling in (name, f"{name}{_SUFFIX}", f"{_PACKAGE}{name}{_SUFFIX}"))
"""Spellings of a policy. Connect accepts an alias, a simple class name or the full one."""

_PRINCIPAL = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})


@dataclass(frozen=True, slots=True)
class OverridePolicy:
    """The policy of the worker's configuration."""

    name: str = "All"
    """All, Allowlist, None or Principal."""
    allowlist: frozenset[str] = frozenset()

    def allows(self, key: str) -> bool:
        """Return True if a setting, named without its prefix, may be overridden."""
        match self.name:
            case "All":
                return True
            case "Allowlist":
                return key in self.allowlist
            case "Principal":
                return key in _PRINCIPAL
            case _:
                return False


def override_policy(worker: Settings) -> OverridePolicy:
    """Return the policy of a worker's checked settings."""
    given = worker.text(POLICY).strip().lower().removeprefix(_PACKAGE).removesuffix(_SUFFIX.lower())
    return OverridePolicy(next(name for name in _NAMES if name.lower() == given), frozenset(worker.items_of(ALLOWLIST)))
