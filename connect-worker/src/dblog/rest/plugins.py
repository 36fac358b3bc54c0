"""``/connector-plugins``: plugins, their options, and validation of configurations (KIP-769)."""

from __future__ import annotations

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from dblog.cluster.requests import bad_request, not_found
from dblog.config.framework import FRAMEWORK_OPTIONS
from dblog.config.infos import definitions
from dblog.config.plugins import CONNECTORS, PLUGINS, Plugin, find_plugin
from dblog.rest.api import Answer, check, config_map, json_body, segment, services
from dblog.rest.audit import note_checked
from dblog.rest.connectors import warning_header

_LATEST = "latest"


async def list_plugins(request: HttpRequest) -> Response:
    """Answer with the connectors, or all plugins with ``connectorsOnly=false``."""
    connectors_only = request.query_params.get("connectorsOnly", "true").lower() == "true"
    return Answer([_described(plugin) for plugin in (CONNECTORS if connectors_only else PLUGINS)])


async def plugin_config(request: HttpRequest) -> Response:
    """Answer with the definitions of a plugin's options."""
    name = segment(request, "plugin")
    plugin = find_plugin(name)
    if plugin is None:
        raise not_found(f"Unknown plugin {name}.")
    version = request.query_params.get("version", _LATEST)
    if version not in (_LATEST, plugin.version):
        raise bad_request(f"Plugin {name} not found in version {version}; this worker has {plugin.version or 'one without a version'}")
    # The framework's options follow the plugin's, for connectors only.
    own = definitions(plugin.options)
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


ROUTES = [
    Route("/connector-plugins", list_plugins, methods=["GET"]),
    Route("/connector-plugins/{plugin}/config", plugin_config, methods=["GET"]),
    Route("/connector-plugins/{plugin}/config/validate", validate, methods=["PUT"]),
]
