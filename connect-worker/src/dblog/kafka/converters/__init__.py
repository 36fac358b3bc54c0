"""Chooses the converters of a connector.

The worker's and the connector's properties name them, as in Kafka Connect. A connector without a
converter of its own takes the worker's class with the worker's settings. A connector that names a
class gets only its own settings below ``key.converter.`` or ``value.converter.``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dblog.config.framework import (
    APICURIO_AVRO,
    AVRO_CONVERTER,
    BINARY_CONVERTER_CLASSES,
    CONVERTER_CLASSES,
    CONVERTER_PREFIXES,
    REFUSED_CONVERTERS,
)
from dblog.config.worker import OwnRegistry
from dblog.errors import ConfigError
from dblog.kafka.converters.avro import AvroConverter, UnframedAvro
from dblog.kafka.converters.binary_data import DELEGATE, BinaryDataConverter
from dblog.kafka.converters.cloud_events import CloudEventsConverter
from dblog.kafka.converters.contract import Converter
from dblog.kafka.converters.json import JsonConverter
from dblog.kafka.converters.plain import BooleanConverter, ByteArrayConverter, NumberConverter, StringConverter
from dblog.kafka.registry import RegistryAccess, RegistryClient


def converters_of(worker: Mapping[str, str], config: Mapping[str, str], *, own_registry: OwnRegistry | None) -> tuple[Converter, Converter]:
    """Return the key and the value converter of a connector.

    ``worker`` and ``config`` are raw properties. Raise ConfigError. Both converters share one
    client if they use the same registry and login, so one request may register schemas of both.
    """
    clients: list[RegistryClient] = []

    def client(access: RegistryAccess) -> RegistryClient:
        known = next((made for made in clients if made.access == access), None)
        if known is None:
            clients.append(known := RegistryClient(access))
        return known

    return (
        converter_of(worker, config, is_key=True, own_registry=own_registry, client=client),
        converter_of(worker, config, is_key=False, own_registry=own_registry, client=client),
    )


def converter_of(
    worker: Mapping[str, str],
    config: Mapping[str, str],
    *,
    is_key: bool,
    own_registry: OwnRegistry | None,
    client: Callable[[RegistryAccess], RegistryClient] = RegistryClient,
) -> Converter:
    """Return the key or the value converter of a connector. Makes no request yet.

    ``client`` creates the registry's client. Raise ConfigError.
    """
    option = "key.converter" if is_key else "value.converter"
    source = config if config.get(option) else worker
    name = source.get(option)
    if not name:
        raise ConfigError({option: ["is given neither by the connector nor by the worker"]})
    return _Making(is_key=is_key, own_registry=own_registry, client=client).converter(option, name, source)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Making:
    """Creation of one converter, and of those that it hands records on to."""

    is_key: bool
    own_registry: OwnRegistry | None
    client: Callable[[RegistryAccess], RegistryClient]

    def converter(self, option: str, name: str, source: Mapping[str, str]) -> Converter:
        """Return the converter of a class; its settings are those of ``source`` below ``option``.

        Raise ConfigError for a prefix below which nothing checks hosts, files and secrets
        (``config/hosts.py``): a converter that hands records on would otherwise lead past the checks.
        """
        name, prefix = name.strip(), f"{option}."
        if prefix not in CONVERTER_PREFIXES:
            raise ConfigError(
                {
                    option: [
                        "a converter that another one hands records on to cannot have one of its own; name JsonConverter or AvroConverter"
                    ]
                }
            )
        settings = {key.removeprefix(prefix): value for key, value in source.items() if key.startswith(prefix)}
        if name in BINARY_CONVERTER_CLASSES:
            delegate = settings.get(DELEGATE)
            key = f"{prefix}{DELEGATE}"
            return BinaryDataConverter(None if not delegate else self.converter(key, delegate, source), option=key)
        match name.rpartition(".")[2].removesuffix("Converter"):
            case "Avro" if not name.startswith("io.apicurio."):
                access = RegistryAccess.from_settings(settings, option_prefix=prefix, own=self.own_registry)
                return AvroConverter(settings, is_key=self.is_key, registry=self.client(access))
            case "Json":
                return JsonConverter(settings, option_prefix=prefix)
            case "String":
                return StringConverter(settings, option_prefix=prefix)
            case "ByteArray":
                return ByteArrayConverter()
            case "Boolean":
                return BooleanConverter()
            case number if number in NumberConverter.NAMES:
                return NumberConverter(number)
            case "BinaryData":
                return self.converter(option, BINARY_CONVERTER_CLASSES[0], source)
            case "CloudEvents":
                return self._cloud_events(option, settings, source)
            case _:
                reason = REFUSED_CONVERTERS.get(name)
                known = ", ".join(CONVERTER_CLASSES)
                raise ConfigError(
                    {option: [f"{name} is not known; this worker has {known}" if reason is None else f"{name} does not run here: {reason}"]}
                )

    def _cloud_events(self, option: str, settings: Mapping[str, str], source: Mapping[str, str]) -> Converter:
        if self.is_key:
            raise ConfigError(
                {option: ["CloudEventsConverter writes changes of rows, so a key would be null; use the JSON or the Avro converter"]}
            )
        if settings.get("avro.apicurio.registry.url"):
            raise ConfigError({f"{option}.avro.apicurio.registry.url": [REFUSED_CONVERTERS[APICURIO_AVRO]]})

        def avro() -> AvroConverter:
            made = self.converter(f"{option}.avro", AVRO_CONVERTER, source)
            assert isinstance(made, AvroConverter)
            return made

        return CloudEventsConverter(settings, option_prefix=f"{option}.", avro=avro)


__all__ = [
    "AvroConverter",
    "BinaryDataConverter",
    "BooleanConverter",
    "ByteArrayConverter",
    "CloudEventsConverter",
    "Converter",
    "JsonConverter",
    "NumberConverter",
    "StringConverter",
    "UnframedAvro",
    "converter_of",
    "converters_of",
]
