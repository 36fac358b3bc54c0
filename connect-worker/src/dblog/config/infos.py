"""Kafka Connect's answer to a validation (ConfigInfos), made from options and their outcome.

The format is that of Connect's ``PUT /connector-plugins/{plugin}/config/validate``: every declared
option with its definition and value, framework options first. Undeclared keys are left out, except
those that resemble a declared one: they follow without definition and error, with the resembling
option as recommended value. Both ``order`` (up to 4.1) and ``order_in_group`` (since 4.2) are
written. Values are shown as given: placeholders stay, passwords are hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dblog.config.framework import FRAMEWORK_OPTIONS, GROUPS, orders_in_groups
from dblog.config.insecure_choices import InsecureChoice, insecure_choices
from dblog.config.options import HIDDEN, Kind, Option, Properties, raw_text
from dblog.config.plugins import CONNECTORS, CONVERTERS, HEADER_CONVERTERS
from dblog.config.secret_values import secret_keys, shown_name, shown_value

_CLIENT_OVERRIDES = ("producer.override.", "consumer.override.", "admin.override.")


def definition(option: Option, order: int) -> dict[str, Any]:
    """Return one option in Connect's description."""
    return {
        "name": option.name,
        "type": option.kind.value,
        "required": option.required,
        "default_value": option.default,
        "importance": option.importance.value,
        "documentation": documentation(option),
        "group": option.group,
        "order": order,
        "order_in_group": order,
        "width": option.width.value,
        "display_name": option.label or option.name,
        "dependents": list(option.dependents),
    }


def documentation(option: Option) -> str:
    """Return the option's text, with the reason if it has no effect here, or the value from which on
    it gives a warning.
    """
    if option.no_effect is not None:
        return f"{option.doc} No effect here: {option.no_effect}."
    return option.doc if option.large is None else f"{option.doc} More than {option.large.above} gets a warning: {option.large.takes}."


def definitions(options: tuple[Option, ...]) -> list[dict[str, Any]]:
    """Return the definitions of all listed options, in order."""
    orders = orders_in_groups(options)
    return [definition(option, orders[option.name]) for option in options if option.listed]


def config_infos(
    class_name: str,
    options: tuple[Option, ...],
    properties: Properties,
    errors: Mapping[str, list[str]],
    *,
    unknown: Mapping[str, str | None],
) -> dict[str, Any]:
    """Return the whole answer.

    ``properties`` are unresolved. ``unknown`` maps undeclared keys to the nearest declared option.
    """
    everything = (*FRAMEWORK_OPTIONS, *options)
    orders = orders_in_groups(everything)
    insecure = insecure_choices(options, properties)
    configs: list[dict[str, Any]] = [
        {"definition": definition(option, orders[option.name]), "value": _value(option, properties, errors.get(option.name, []), insecure)}
        for option in everything
        if option.listed
    ]
    secret = secret_keys(everything, properties)
    declared = {option.name for option in everything} | {alias for option in everything for alias in option.aliases}
    # Undeclared keys are shown only if they have an error, a null or an insecure choice, or
    # override a client setting.
    for name, text in properties.items():
        if name not in declared and (name in errors or name in insecure or text is None or name.startswith(_CLIENT_OVERRIDES)):
            shown = None if text is None else (HIDDEN if name in secret else shown_value(name, text))
            configs.append({"definition": None, "value": _value_info(name, shown, _safer(name, insecure), errors.get(name, []))})
    # A key that resembles an option is shown with it, but without its value, which may be the
    # password of a misspelt key.
    configs.extend(
        {"definition": None, "value": _value_info(name, HIDDEN, [nearest], [])}
        for name, nearest in unknown.items()
        if nearest is not None and name not in errors and properties[name] is not None
    )
    configs.extend(
        {"definition": None, "value": _value_info(name, None, [], errors[name])}
        for name in errors
        if name not in declared and name not in properties
    )
    groups = [*GROUPS, *dict.fromkeys(option.group for option in options if option.group is not None)]
    return {"name": class_name, "error_count": sum(len(texts) for texts in errors.values()), "groups": groups, "configs": configs}


def _value(option: Option, properties: Properties, errors: list[str], insecure: Mapping[str, InsecureChoice]) -> dict[str, Any]:
    text = raw_text(option, properties)
    if text is not None:
        text = HIDDEN if option.kind is Kind.PASSWORD else shown_value(option.name, text)
    return _value_info(option.name, text, list(dict.fromkeys((*_safer(option.name, insecure), *_recommended(option)))), errors)


def _safer(name: str, insecure: Mapping[str, InsecureChoice]) -> list[str]:
    """Return safer values for an insecure choice. They come first among the recommended values."""
    return list(insecure[name].safer) if name in insecure else []


def _value_info(name: str, text: str | None, recommended: list[str], errors: list[str]) -> dict[str, Any]:
    return {"name": shown_name(name), "value": text, "recommended_values": recommended, "errors": list(errors), "visible": True}


def _recommended(option: Option) -> list[str]:
    match option.name:
        case "key.converter" | "value.converter":
            return [plugin.class_name for plugin in CONVERTERS]
        case "header.converter":
            return [plugin.class_name for plugin in HEADER_CONVERTERS]
        case "connector.class":
            return [plugin.class_name for plugin in CONNECTORS]
        case _:
            return [*option.recommended, *option.choices]
