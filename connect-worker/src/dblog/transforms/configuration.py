"""Reads ``transforms`` and ``predicates`` of a connector's configuration: options, errors, chain.

Names, groups, order and errors are Connect's (``ConnectorConfig.enrich``): each alias has a group
of its own with ``type`` first, and a key that is wrong is named in full. Unlike Connect, the
transform is made when the configuration is checked, so what only its ``configure`` refuses is an
error of its key, and not a failed task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dblog.config.options import Importance, Kind, Option, Properties, Settings, Value, Width, check_properties, only, split_list
from dblog.config.regex import CHAIN_INSTRUCTIONS_MAX, PatternError, Room
from dblog.errors import ConfigError
from dblog.transforms.catalog import PREDICATE_PLUGINS, REFUSED, TRANSFORM_PLUGINS, find_predicate, find_transform
from dblog.transforms.chain import Chain, Step
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Predicate, PredicatePlugin, TransformPlugin

_NO_VERSIONS = "this worker has exactly one version of every plugin; remove the key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """The transforms of a configuration. ``chain`` is None if there are none or ``errors`` has
    some.
    """

    options: tuple[Option, ...] = ()
    """The options of all aliases, with their full names."""
    errors: Mapping[str, list[str]]
    chain: Chain | None = None


def configured(properties: Properties, *, shown: Mapping[str, str] | None = None) -> Configured:
    """Return the transforms that a configuration names. Never raises.

    ``shown`` maps keys whose value came from a config provider to the placeholder to print instead.
    """
    with Room(CHAIN_INSTRUCTIONS_MAX).shared():
        return _Reading(properties, shown or {}).result()


def chain_of(properties: Mapping[str, str]) -> Chain | None:
    """Return the chain of a configuration, None without transforms. Raise ConfigError."""
    found = configured(properties)
    if found.errors:
        raise ConfigError({name: list(texts) for name, texts in found.errors.items()})
    return found.chain


class _Reading:
    """The reading of one configuration."""

    def __init__(self, properties: Properties, shown: Mapping[str, str]) -> None:
        self._properties = properties
        self._shown = shown
        self._options: list[Option] = []
        self._errors: dict[str, list[str]] = {}
        self._predicates: dict[str, Predicate] = {}

    def result(self) -> Configured:
        """Return options, errors and chain."""
        transforms, predicates = self._aliases("transforms"), self._aliases("predicates")
        before, self._options = self._options, []
        for alias in predicates:
            self._predicate(alias)
        options_of_predicates, self._options = self._options, before
        steps = [self._step(alias, predicates) for alias in transforms]
        chain = None if self._errors or not steps else Chain(tuple(step for step in steps if step is not None))
        return Configured(options=(*self._options, *options_of_predicates), errors=self._errors, chain=chain)

    def _aliases(self, key: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(split_list(self._properties.get(key) or "")))

    def _predicate(self, alias: str) -> None:
        prefix, group = f"predicates.{alias}.", f"Predicates: {alias}"
        known = tuple(plugin.class_name for plugin in PREDICATE_PLUGINS)
        self._options += [
            _type_option(prefix, group, alias, "predicate", known, _ClassCheck(known, find_predicate)),
            _version(prefix, group),
        ]
        plugin = find_predicate(self._properties.get(f"{prefix}type") or "")
        settings = self._settings(prefix, group, plugin, own=self._options[-2:])
        if plugin is None or settings is None:
            return
        try:
            self._predicates[alias] = plugin.make(settings)
        except ConfigError as e:
            self._add(prefix, e)
        except PatternError as e:
            self._no_room(prefix, e)

    def _step(self, alias: str, predicates: Sequence[str]) -> Step | None:
        prefix, group = f"transforms.{alias}.", f"Transforms: {alias}"
        known = tuple(name for plugin in TRANSFORM_PLUGINS for name in plugin.class_names)
        own = [
            _type_option(prefix, group, alias, "transformation", known, _ClassCheck(known, find_transform)),
            _version(prefix, group),
            Option(
                name=f"{prefix}negate",
                doc="If true, the transformation gets the records for which the predicate does not hold.",
                kind=Kind.BOOLEAN,
                default="false",
                group=group,
            ),
            Option(
                name=f"{prefix}predicate",
                doc="Alias of the predicate that decides which records the transformation gets.",
                group=group,
                check=_PredicateCheck(predicates),
            ),
        ]
        self._options += own
        found = find_transform(self._properties.get(f"{prefix}type") or "")
        plugin, part = (None, Part.VALUE) if found is None else found
        settings = self._settings(prefix, group, plugin, own=own)
        if f"{prefix}negate" in self._properties and f"{prefix}predicate" not in self._properties:
            self._errors.setdefault(f"{prefix}negate", []).append(
                f"Config '{prefix}negate' was provided but there is no config '{prefix}predicate' defining a predicate to be negated."
            )
        if plugin is None or settings is None:
            return None
        try:
            transform = plugin.make(settings, part)
        except ConfigError as e:
            self._add(prefix, e)
            return None
        except PatternError as e:
            self._no_room(prefix, e)
            return None
        wanted = settings.text_or_none("predicate")
        predicate = None if wanted is None else self._predicates.get(wanted.strip())
        class_name = plugin.class_name if not plugin.parts else f"{plugin.class_name}${part.value}"
        return Step(alias=alias, class_name=class_name, transform=transform, predicate=predicate, negate=settings.boolean("negate"))

    def _settings(
        self, prefix: str, group: str, plugin: TransformPlugin | PredicatePlugin | None, *, own: Sequence[Option]
    ) -> Settings | None:
        """Return the alias's settings without their prefix; None if there are errors."""
        of_class = () if plugin is None else tuple(replace(one, name=f"{prefix}{one.name}", group=group) for one in plugin.options)
        self._options += of_class
        # Every transform has the keys of predicates, whatever its class calls by these names.
        given = {name: text for name, text in self._properties.items() if name.startswith(prefix)}
        checked = check_properties((*own, *of_class), given, shown=self._shown)
        for name, texts in checked.errors.items():
            self._errors.setdefault(name, []).extend(texts)
        if checked.errors:
            return None
        values = {name.removeprefix(prefix): value for name, value in checked.values.items()}
        return Settings(values, {name.removeprefix(prefix): text for name, text in given.items() if text is not None})

    def _no_room(self, prefix: str, error: PatternError) -> None:
        """Note a pattern that passed its check, and for which the others then left no room."""
        self._errors.setdefault(f"{prefix}type", []).append(f"its pattern cannot be used: {error}")

    def _add(self, prefix: str, error: ConfigError) -> None:
        for name, texts in error.errors.items():
            full = f"{prefix}{name}"
            given = self._shown.get(full, self._properties.get(full))
            shown = "null" if given is None else given
            self._errors.setdefault(full, []).extend(f"Invalid value {shown} for configuration {full}: {text}" for text in texts)


@dataclass(frozen=True, slots=True)
class _ClassCheck:
    """Check that this worker has a class. ``find`` returns None for an unknown one."""

    known: Sequence[str]
    find: Callable[[str], object]

    def __call__(self, value: Value, _all: Mapping[str, Value]) -> str | None:
        name = str(value).strip()
        if self.find(name) is not None:
            return None
        refused = REFUSED.get(name) or REFUSED.get(name.partition("$")[0])
        if refused is not None:
            return f"Class {{value}} does not run in this worker: {refused}."
        return f"Class {{value}} could not be found; this worker has {', '.join(self.known)}."


def _type_option(prefix: str, group: str, alias: str, kind: str, known: tuple[str, ...], check: _ClassCheck) -> Option:
    return Option(
        name=f"{prefix}type",
        doc=f"Class for the '{alias}' {kind}.",
        kind=Kind.CLASS,
        required=True,
        importance=Importance.HIGH,
        group=group,
        width=Width.LONG,
        label=f"{kind.capitalize()} type for {alias}",
        recommended=known,
        check=check,
    )


def _version(prefix: str, group: str) -> Option:
    return Option(name=f"{prefix}plugin.version", doc="Version range of the plugin.", group=group, refused=only(because=_NO_VERSIONS))


@dataclass(frozen=True, slots=True)
class _PredicateCheck:
    """Check that a predicate's alias is declared."""

    declared: Sequence[str]

    def __call__(self, value: Value, _all: Mapping[str, Value]) -> str | None:
        if str(value).strip() in self.declared:
            return None
        has = f"it has {', '.join(self.declared)}" if self.declared else "it has none"
        return f"{{value}} is not an alias of a predicate in predicates; {has}."
