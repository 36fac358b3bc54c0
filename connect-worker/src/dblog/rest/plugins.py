"""``/connector-plugins``: plugins, their options, and validation of configurations (KIP-769)."""

from __future__ import annotations

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from dblog.cluster.requests import bad_request, not_found
from dblog.config.framework import FRAMEWORK_OPTIONS
from dblog.config.infos import definitions
from dblog.config.options import Option
from dblog.config.plugins import CONNECT_VERSION, CONNECTORS, PLUGIN_VERSION, PLUGINS, Plugin, find_plugin
from dblog.rest.api import Answer, check, config_map, json_body, segment, services
from dblog.rest.audit import note_checked
from dblog.rest.connectors import warning_header
from dblog.transforms.catalog import PREDICATE_PLUGINS, TRANSFORM_PLUGINS, find_predicate, find_transform

_LATEST = "latest"


async def list_plugins(request: HttpRequest) -> Response:
    """Answer with the connectors, or all plugins with ``connectorsOnly=false``."""
    connectors_only = request.query_params.get("connectorsOnly", "true").lower() == "true"
    if connectors_only:
        return Answer([_described(plugin) for plugin in CONNECTORS])
    others = [plugin for plugin in PLUGINS if plugin not in CONNECTORS]
    return Answer([*map(_described, CONNECTORS), *_transforms(), *map(_described, others)])


async def plugin_config(request: HttpRequest) -> Response:
    """Answer with the definitions of a plugin's options."""
    name = segment(request, "plugin")
    plugin = find_plugin(name)
    found = (plugin.version, plugin.options) if plugin is not None else _of_transform(name)
    if found is None:
        raise not_found(f"Unknown plugin {name}.")
    has_version, options = found
    version = request.query_params.get("version", _LATEST)
    if version not in (_LATEST, has_version):
        raise bad_request(f"Plugin {name} not found in version {version}; this worker has {has_version or 'one without a version'}")
    # The framework's options follow the plugin's, for connectors only.
    own = definitions(options)
    return Answer([*own, *definitions(FRAMEWORK_OPTIONS)] if plugin in CONNECTORS else own)


async def validate(request: HttpRequest) -> Response:
    """Answer with ConfigInfos: 200 even if there are errors."""
    name = segment(request, "plugin")
    config = config_map(await json_body(request))
    included = config.get("connector.class")
    if included is not None and not included.strip().removesuffix("Connector").endswith(name.removesuffix("Connector")):
        raise bad_request(f"Included connector type {included} does not match request type {name}")
    note_checked(request, config)
    validator = services(request).validator
    outcome = await check(request, lambda: validator.validate(config))
    return Answer(outcome.infos, headers=warning_header(outcome.remarks))


def _described(plugin: Plugin) -> dict[str, str]:
    described = {"class": plugin.class_name, "type": plugin.type}
    return described if plugin.version is None else {**described, "version": plugin.version}


def _of_transform(name: str) -> tuple[str, tuple[Option, ...]] | None:
    """Return version and options of a transform or predicate, None if there is none."""
    if (transform := find_transform(name)) is not None:
        return _version_of(transform[0].class_name), transform[0].options
    predicate = find_predicate(name)
    return None if predicate is None else (_version_of(predicate.class_name), predicate.options)


def _transforms() -> list[dict[str, str]]:
    classes = [("transformation", name) for plugin in TRANSFORM_PLUGINS for name in plugin.class_names]
    classes += [("predicate", plugin.class_name) for plugin in PREDICATE_PLUGINS]
    return [{"class": name, "type": kind, "version": _version_of(name)} for kind, name in classes]


def _version_of(class_name: str) -> str:
    return CONNECT_VERSION if class_name.startswith("org.apache.kafka.") else PLUGIN_VERSION


ROUTES = [
    Route("/connector-plugins", list_plugins, methods=["GET"]),
    Route("/connector-plugins/{plugin}/config", plugin_config, methods=["GET"]),
    Route("/connector-plugins/{plugin}/config/validate", validate, methods=["PUT"]),
]
