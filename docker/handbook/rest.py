"""Describes the worker's REST interface as an OpenAPI document, from where its resources are
declared (`dblog.rest`).

Paths, methods, needed roles, query parameters and summaries are read from the routes and their
handlers. `OPERATIONS` adds what code cannot say: bodies and answers. A route without an entry here,
and an entry without a route, end the build.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, cast

from dblog.rest import admin, connectors, ddl, dumps, journal, offsets, plugins, probes, signals, sinks, tasks, topics, versions
from dblog.rest.access import need
from dblog.rest.api import PROBE_PATHS
from dblog.rest.readonly import reading_routes
from dblog.rest.schemas import registry_routes
from starlette.routing import BaseRoute, Match, Route

TAGS = {
    admin: "Worker",
    probes: "Worker",
    connectors: "Connectors",
    versions: "Connectors",
    journal: "Connectors",
    sinks: "Sinks",
    tasks: "Tasks",
    offsets: "Offsets",
    topics: "Topics",
    dumps: "Dumps",
    signals: "Dumps",
    ddl: "DDL",
    plugins: "Plugins",
}
REGISTRY = "Schema registry"

PARAMETERS = {
    "revision": "Version of a configuration, as the list of versions has it: the offset of its record.",
    "sink": "Name of the sink, percent-encoded.",
    "state_path": "The sink's state.path, where several sinks have one name.",
    "level": "Least level: debug, info, warning or error.",
    "q": "Only lines with this text, in any case.",
    "lines": "How many of the newest lines, at most 5000; 500 without it.",
    "format": "`text` gives lines of text to download.",
    "kind": "Only events of this kind: change, state, retry, failover, ddl, dump, position or warning.",
    "connector": "Name of the connector, percent-encoded.",
    "connectorsOnly": "`false` lists converters too.",
    "defaultToGlobal": "`true` answers with the global value where the subject has none.",
    "deleted": "`true` includes what was deleted softly.",
    "dump": "The dump's id; `initial` is the connector's own first dump.",
    "expand": "`status` or `info`, or both by giving it twice: an object instead of names.",
    "fetchMaxId": "`true` adds the greatest id.",
    "id": "Id of the schema.",
    "includeTasks": "`true` restarts the tasks too.",
    "latestOnly": "`true` shows the newest version of each subject alone.",
    "limit": "Most entries of the answer; negative for all.",
    "logger": "Name of the logger, such as `dblog.readers`.",
    "map": "`true` adds to each table which part of its key range has been read.",
    "offset": "Entries to leave out at the beginning.",
    "onlyFailed": "`true` restarts only what has failed.",
    "permanent": "`true` removes what was deleted softly before.",
    "plugin": "Class name of the plugin, or its last part.",
    "scope": "`cluster` sets the level on all workers of the group.",
    "subject": "Name of the subject, such as `shop.inventory.orders-value`.",
    "subjectPrefix": "First letters of the subjects to list.",
    "table": "`database.table`, or `schema.table` of PostgreSQL.",
    "task": "Number of the task; a connector has one, 0.",
    "verbose": "`true` adds the reasons.",
    "version": "Version number, or `latest`.",
}

INFO = {"name": "shop", "config": {"connector.class": "..."}, "tasks": [{"connector": "shop", "task": 0}], "type": "source"}
_CONFIG = {"connector.class": "io.debezium.connector.mysql.MySqlConnector", "topic.prefix": "shop"}
_STATUS = {
    "name": "shop",
    "connector": {"state": "RUNNING", "worker_id": "10.0.0.7:8083"},
    "tasks": [{"id": 0, "state": "RUNNING", "worker_id": "10.0.0.7:8083"}],
    "type": "source",
    "warnings": [],
}
_OFFSETS = {"offsets": [{"partition": {"server": "shop"}, "offset": {"file": "binlog.000003", "pos": 4711}}]}
_SCHEMA = {"schema": '{"type": "string"}'}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Body and answers of an operation, beside what its route and handler say."""

    summary: str
    """First sentence, for who calls it; the handler's docstring is for who reads the code."""
    answers: Mapping[int, str]
    body: object = None
    """Example of the body; None if there is none."""
    example: object = None
    """Example of the first answer; None if it has no body."""


def _op(summary: str, answers: Mapping[int, str], *, body: object = None, example: object = None) -> Operation:
    return Operation(summary=summary, answers=answers, body=body, example=example)


_UNKNOWN = "Unknown connector."
_BUSY = "The connector is being changed, or this worker does not lead its group."
_NO_DUMP = "Unknown connector, dump or table."
_NOT_LEADING = "The dump has ended or is being stopped, or this worker does not lead."

OPERATIONS: dict[str, Operation] = {
    "GET /": _op(
        "Show the worker's version and Kafka cluster.",
        {200: "Version of Kafka Connect whose interface this is, and the Kafka cluster."},
        example={"version": "4.1.0", "commit": "..."},
    ),
    "GET /health": _op(
        "Show whether the worker carries out requests.",
        {200: "Healthy.", 500: "The worker does not carry out requests.", 503: "Starting, or its topics are not its own."},
    ),
    "GET /health/live": _op("Show whether the process runs: a liveness probe.", {200: "The process runs."}, example={"status": "live"}),
    "GET /health/ready": _op(
        "Show whether the worker has joined its group: a readiness probe.",
        {200: "Ready.", 503: "Not ready, with the reason."},
        example={"status": "ready", "role": "leader"},
    ),
    "GET /metrics": _op("Get all metrics for Prometheus.", {200: "Prometheus text."}),
    "GET /admin/loggers": _op(
        "List the loggers and their levels.",
        {200: "Levels by logger."},
        example={"dblog.readers": {"level": "INFO", "last_modified": None}},
    ),
    "GET /admin/loggers/{logger}": _op(
        "Get the level of a logger.", {200: "Its level.", 404: "Unknown logger."}, example={"level": "INFO", "last_modified": None}
    ),
    "PUT /admin/loggers/{logger}": _op(
        "Set the level of a logger.",
        {200: "The loggers whose level was set.", 204: "Set on all workers.", 404: "Unknown logger or level."},
        body={"level": "DEBUG"},
        example=["dblog.readers"],
    ),
    "GET /connectors": _op("List the connectors.", {200: "Names, or an object with `expand`."}, example=["shop"]),
    "POST /connectors": _op(
        "Create a connector.",
        {201: "Created; `Location` has its address, `Warning` what is in doubt.", 400: "The configuration cannot run.", 409: "It exists."},
        body={"name": "shop", "config": _CONFIG, "initial_state": "RUNNING"},
        example=INFO,
    ),
    "GET /connectors/{connector}": _op("Get a connector.", {200: "Its configuration and tasks.", 404: _UNKNOWN}, example=INFO),
    "DELETE /connectors/{connector}": _op(
        "Delete a connector.", {204: "Deleted; a `Warning` names what stays at the database.", 404: _UNKNOWN, 409: _BUSY}
    ),
    "GET /connectors/{connector}/config": _op(
        "Get a connector's configuration.", {200: "The configuration.", 404: _UNKNOWN}, example=_CONFIG
    ),
    "PUT /connectors/{connector}/config": _op(
        "Replace a connector's configuration, or create the connector.",
        {200: "Changed.", 201: "Created.", 400: "The configuration cannot run.", 409: _BUSY},
        body=_CONFIG,
        example=INFO,
    ),
    "PATCH /connectors/{connector}/config": _op(
        "Change some keys of a configuration; null removes a key.",
        {200: "Changed.", 400: "The configuration cannot run.", 404: _UNKNOWN, 409: "Somebody else changed it meanwhile."},
        body={"dblog.chunk.rows": "50000", "obsolete.key": None},
        example=INFO,
    ),
    "GET /connectors/{connector}/status": _op(
        "Show how a connector and its task are.", {200: "States and warnings.", 404: _UNKNOWN}, example=_STATUS
    ),
    "POST /connectors/{connector}/restart": _op(
        "Restart a connector, and its task if asked.",
        {202: "Restarting, with the status.", 204: "Restarting.", 404: _UNKNOWN, 409: _BUSY},
        example=_STATUS,
    ),
    "PUT /connectors/{connector}/pause": _op("Pause a connector.", {202: "Will pause.", 404: _UNKNOWN}),
    "PUT /connectors/{connector}/resume": _op("Resume a paused or stopped connector.", {202: "Will run.", 404: _UNKNOWN}),
    "PUT /connectors/{connector}/stop": _op(
        "Stop a connector; its offsets may be changed then.", {204: "Will stop; its tasks end.", 404: _UNKNOWN}
    ),
    "GET /connectors/{connector}/tasks": _op(
        "List a connector's tasks.",
        {200: "Configurations of its tasks.", 404: _UNKNOWN},
        example=[{"id": {"connector": "shop", "task": 0}, "config": _CONFIG}],
    ),
    "POST /connectors/{connector}/tasks": _op(
        "Refused: a call between JVM workers.", {400: "No signature.", 403: "Nobody has the key for one."}
    ),
    "PUT /connectors/{connector}/fence": _op(
        "Refused: a call between JVM workers.", {400: "No signature.", 403: "Nobody has the key for one."}
    ),
    "GET /connectors/{connector}/tasks/{task}/status": _op(
        "Show how a task is.",
        {200: "State, and `trace` if it has failed.", 404: "Unknown connector or task."},
        example={"id": 0, "state": "RUNNING", "worker_id": "10.0.0.7:8083"},
    ),
    "POST /connectors/{connector}/tasks/{task}/restart": _op("Restart a task.", {204: "Restarting.", 404: "Unknown connector or task."}),
    "GET /connectors/{connector}/offsets": _op(
        "Get a connector's offsets.", {200: "Offsets by partition.", 404: _UNKNOWN}, example=_OFFSETS
    ),
    "PATCH /connectors/{connector}/offsets": _op(
        "Change the offsets of a stopped connector.",
        {200: "Changed.", 400: "The connector is not stopped, or could not start there.", 404: _UNKNOWN},
        body=_OFFSETS,
        example={"message": "..."},
    ),
    "DELETE /connectors/{connector}/offsets": _op(
        "Remove the offsets of a stopped connector.",
        {200: "Removed: the next start is a first one.", 400: "The connector is not stopped.", 404: _UNKNOWN},
        example={"message": "..."},
    ),
    "GET /connectors/{connector}/topics": _op(
        "List the topics that a connector has written to.",
        {200: "Topics that it has written to."},
        example={"shop": {"topics": ["shop.inventory.orders"]}},
    ),
    "GET /connectors/{connector}/config/versions": _op(
        "List the configurations that a connector has had, newest first, with what each changed.",
        {200: "The versions that the config topic still has. Secrets are hidden.", 404: _UNKNOWN},
        example=[{"version": 17, "at_ms": 0, "current": True, "changes": [{"key": "tasks.max", "before": "1", "after": "2"}]}],
    ),
    "POST /connectors/{connector}/config/versions/{revision}/restore": _op(
        "Go back to an earlier configuration.",
        {
            200: "The connector with it; its task starts again.",
            400: "It is not valid any more.",
            404: "Unknown connector or version.",
            409: _BUSY,
        },
        example={"name": "shop", "config": {}, "tasks": [], "type": "source"},
    ),
    "GET /connectors/{connector}/log": _op(
        "Show the newest log lines of a connector.",
        {
            200: "Lines, oldest first, since the worker began; as text with format=text.",
            400: "Unknown level, or a wrong limit.",
            404: _UNKNOWN,
        },
        example=[{"at": "2026-01-31T12:00:00Z", "level": "info", "logger": "dblog.cluster", "text": "task state state=RUNNING"}],
    ),
    "GET /connectors/{connector}/events": _op(
        "Show what has happened to a connector.",
        {200: "Events, newest first, since the worker began.", 400: "Unknown kind.", 404: _UNKNOWN},
        example=[
            {"kind": "state", "at": "2026-01-31T12:00:00Z", "level": "info", "logger": "dblog.cluster", "text": "task state state=RUNNING"}
        ],
    ),
    "GET /connectors/{connector}/lake": _op(
        "Show what sinks report of a connector's tables.",
        {200: "A table for each topic and sink.", 404: _UNKNOWN},
        example={"tables": [{"topic": "shop.inventory.orders", "sink": "lake", "rows": 120034, "parked": None}]},
    ),
    "GET /sinks": _op(
        "List the sinks that report.",
        {200: "The sinks with tables that the caller may see.", 404: "This worker does not read the sinks' reports."},
        example={"fault": None, "sinks": [{"sink": "lake", "state": "RUNNING", "lag_s": 1.5}]},
    ),
    "DELETE /sinks/{sink}": _op(
        "Remove a sink that has ended from the list.",
        {
            204: "Removed; the lake stays as it is.",
            400: "It still reports, or several have the name.",
            404: "No such sink has reported.",
            503: "The topic cannot be written now.",
        },
    ),
    "GET /sinks/{sink}/tables": _op(
        "List the tables of a sink.",
        {200: "Those that the caller may see.", 404: "No such sink has reported."},
        example={"tables": [{"topic": "shop.inventory.orders", "name": "inventory.orders", "rows": 120034, "parked": None}]},
    ),
    "PUT /connectors/{connector}/topics/reset": _op("Empty the list of a connector's topics.", {200: "Forgotten."}),
    "POST /connectors/{connector}/ddl/explain": _op(
        "Show what a DDL statement would do, without running it.",
        {200: "The effects.", 400: "No statement, or something has to be mended first.", 404: _UNKNOWN, 503: "A server does not answer."},
        body={"statement": "ALTER TABLE orders ADD note TEXT", "database": "inventory"},
    ),
    "GET /connectors/{connector}/dumps": _op(
        "List a connector's dumps.",
        {200: "Its dumps in short.", 404: _UNKNOWN, 409: "This worker does not lead."},
        example={"dumps": [{"id": "initial"}]},
    ),
    "POST /connectors/{connector}/dumps": _op(
        "Dump tables, or some of their rows, again.",
        {
            202: "Accepted; `Location` has its address.",
            400: "The request is wrong: all wrong fields are named.",
            404: "Unknown connector, or no captured table matches.",
            409: "The connector is stopped or has failed, or too many dumps are open.",
            503: "The task does not run yet.",
            504: "The task has not checked the request in time.",
        },
        body={"tables": ["inventory\\.orders"], "mode": "rows"},
    ),
    "GET /connectors/{connector}/dumps/{dump}": _op(
        "Show how far a dump is.", {200: "Its request and status.", 404: _NO_DUMP, 409: "This worker does not lead."}
    ),
    "PATCH /connectors/{connector}/dumps/{dump}": _op(
        "Change a dump while it runs.",
        {200: "Changed.", 400: "A field is wrong.", 404: _NO_DUMP, 409: _NOT_LEADING},
        body={"delay_ms": 100, "parallelism": 2},
    ),
    **{
        f"POST /connectors/{{connector}}/dumps/{{dump}}{table}/{verb}": _op(
            "List the subjects.", {202: "Accepted.", 404: _NO_DUMP, 409: _NOT_LEADING}
        )
        for table, of in (("", "a dump"), ("/tables/{table}", "one table of a dump"))
        for verb in ("pause", "resume", "stop")
    },
    "POST /connectors/{connector}/signals": _op(
        "Send a signal of Debezium's.",
        {
            202: "Accepted.",
            400: "It is not a signal, or cannot be carried out.",
            404: _UNKNOWN,
            409: "The connector is stopped or has failed.",
        },
        body={"type": "execute-snapshot", "data": {"data-collections": ["inventory[.]orders"], "type": "incremental"}},
    ),
    "GET /connector-plugins": _op(
        "List the plugins.",
        {200: "Plugins with class, type and version."},
        example=[{"class": "io.debezium.connector.mysql.MySqlConnector", "type": "source"}],
    ),
    "GET /connector-plugins/{plugin}/config": _op(
        "List the options of a plugin.", {200: "Definitions of its options.", 404: "Unknown plugin."}
    ),
    "PUT /connector-plugins/{plugin}/config/validate": _op(
        "Check a configuration, on the database too.",
        {200: "Each option with its value and errors, also if there are errors.", 400: "The class is another one than the plugin."},
        body=_CONFIG,
    ),
    "GET /subjects": _op("List the subjects.", {200: "Names."}, example=["shop.inventory.orders-value"]),
    "POST /subjects/{subject}": _op(
        "Find a schema below a subject.", {200: "The version that has it.", 404: "Unknown subject or schema."}, body=_SCHEMA
    ),
    "DELETE /subjects/{subject}": _op("Delete a subject.", {200: "The versions deleted."}, example=[1]),
    "GET /subjects/{subject}/versions": _op("List the versions of a subject.", {200: "Version numbers."}, example=[1, 2]),
    "POST /subjects/{subject}/versions": _op(
        "Register a schema.",
        {200: "Its id.", 409: "Not compatible with what is there.", 422: "Not a schema."},
        body=_SCHEMA,
        example={"id": 7},
    ),
    "GET /subjects/{subject}/versions/{version}": _op("Get a version.", {200: "The version.", 404: "Unknown."}),
    "DELETE /subjects/{subject}/versions/{version}": _op("Delete a version.", {200: "Its number."}, example=2),
    "GET /subjects/{subject}/versions/{version}/schema": _op("Get a version's schema alone.", {200: "The schema's text."}),
    "GET /subjects/{subject}/versions/{version}/referencedby": _op(
        "List the schemas that refer to a version.", {200: "Ids of schemas."}, example=[9]
    ),
    "GET /schemas": _op("List schemas.", {200: "Versions of all subjects."}),
    "POST /schemas/together": _op(
        "Register many schemas by one request. Confluent's registry does not have this one.",
        {200: "An id or an error for each, in order."},
        body=[{"subject": "a-value", **_SCHEMA}],
        example=[{"id": 7}],
    ),
    "GET /schemas/types": _op("List the types of schemas.", {200: "`AVRO` alone."}, example=["AVRO"]),
    "GET /schemas/ids/{id}": _op("Get a schema by its id.", {200: "The schema.", 404: "Unknown id."}, example=_SCHEMA),
    "GET /schemas/ids/{id}/schema": _op("Get a schema's text by its id.", {200: "The schema's text.", 404: "Unknown id."}),
    "GET /schemas/ids/{id}/versions": _op("List where a schema is used.", {200: "Subjects and versions."}),
    "GET /schemas/ids/{id}/subjects": _op("List the subjects of a schema.", {200: "Subjects."}),
    **{
        f"{method} /config{subject}": _op(f"{verb} the compatibility level of {of}.", {200: "The level."}, body=body, example=example)
        for subject, of in (("", "all subjects"), ("/{subject}", "a subject"))
        for method, verb, body, example in (
            ("GET", "Get", None, {"compatibilityLevel": "BACKWARD"}),
            ("PUT", "Set", {"compatibility": "NONE"}, {"compatibility": "NONE"}),
            ("DELETE", "Reset", None, {"compatibilityLevel": "BACKWARD"}),
        )
    },
    **{
        f"{method} /mode{subject}": _op(f"{verb} the mode of {of}.", {200: "The mode."}, body=body, example={"mode": "READWRITE"})
        for subject, of in (("", "all subjects"), ("/{subject}", "a subject"))
        for method, verb, body in (("GET", "Get", None), ("PUT", "Set", {"mode": "READONLY"}), ("DELETE", "Reset", None))
        if (method, subject) != ("DELETE", "")
    },
    **{
        f"POST /compatibility/subjects/{{subject}}/versions{version}": _op(
            f"Compare a schema with {of} of a subject.", {200: "Whether it is compatible."}, body=_SCHEMA, example={"is_compatible": True}
        )
        for version, of in (("", "the versions"), ("/{version}", "one version"))
    },
}


def routes() -> list[tuple[str, Route]]:
    """Return every route with its tag, in the order of the application."""
    own: list[tuple[str, BaseRoute]] = [(tag, route) for module, tag in TAGS.items() for route in cast("Any", module).ROUTES]
    own += [(TAGS[admin], route) for route in admin.LOGGER_ROUTES]
    # The registry's routes are bound to a store, which only requests use.
    own += [(REGISTRY, route) for route in registry_routes(cast("Any", None))]
    return [(tag, route) for tag, route in own if isinstance(route, Route)]


def operations() -> Iterator[tuple[str, str, Route]]:
    """Yield method, tag and route of every operation, without HEAD."""
    for tag, route in routes():
        for method in sorted((route.methods or set()) - {"HEAD"}):
            yield method, tag, route


def document() -> dict[str, Any]:
    """Return the OpenAPI document. Raise ValueError if `OPERATIONS` and the routes differ."""
    found = {f"{method} {route.path}": (method, tag, route) for method, tag, route in operations()}
    if differing := sorted(set(found) ^ set(OPERATIONS)):
        raise ValueError(f"handbook/rest.py describes other operations than the worker has: {', '.join(differing)}")
    is_open = _open_on_the_readonly_listener()
    paths: dict[str, dict[str, Any]] = {}
    for key, (method, tag, route) in found.items():
        paths.setdefault(route.path, {})[method.lower()] = _operation(
            OPERATIONS[key], method, tag, route, is_open=is_open(method, route.path)
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "dblog worker",
            "version": version("dblog"),
            "description": "Kafka Connect's REST interface, dumps on demand, and a schema registry with Confluent's interface.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": [{"name": tag} for tag in dict.fromkeys((*TAGS.values(), REGISTRY))],
        "paths": paths,
        "components": {
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}, "token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Error": {
                    "type": "object",
                    "required": ["error_code", "message"],
                    "properties": {"error_code": {"type": "integer"}, "message": {"type": "string"}},
                }
            },
        },
    }


def _operation(described: Operation, method: str, tag: str, route: Route, *, is_open: bool) -> dict[str, Any]:
    handler = _handler(route)
    path = re.sub(r"\{\w+\}", "x", route.path)
    probe = route.path in PROBE_PATHS
    operation: dict[str, Any] = {
        "tags": [tag],
        "operationId": re.sub(r"\W+", "-", f"{method.lower()}{route.path}").strip("-"),
        "summary": described.summary,
        "description": " ".join((inspect.getdoc(handler) or "").replace("``", "`").split()),
        "security": [] if probe else [{"basic": []}, {"token": []}],
        "x-role": None if probe else need(method, path).role.name.lower(),
        "x-readonly-listener": is_open,
        "parameters": [
            *({"name": name, "in": "path", "required": True, **_about(name)} for name in re.findall(r"\{(\w+)\}", route.path)),
            *({"name": name, "in": "query", **_about(name)} for name in sorted(queried(handler))),
        ],
        "responses": {
            str(code): _answer(code, text, described.example if not i else None) for i, (code, text) in enumerate(described.answers.items())
        },
    }
    if described.body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"example": described.body}}}
    return operation


def _about(name: str) -> dict[str, Any]:
    return {"description": PARAMETERS[name], "schema": {"type": "string"}}


def _answer(code: int, text: str, example: object) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": text}
    if example is not None:
        answer["content"] = {"application/json": {"example": example}}
    elif code >= HTTPStatus.BAD_REQUEST:
        answer["content"] = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return answer


def _handler(route: Route) -> Callable[..., Any]:
    endpoint = route.endpoint
    if isinstance(endpoint, partial):
        endpoint = endpoint.args[-1]
    handler: Callable[..., Any] = endpoint
    return handler


def queried(handler: Callable[..., Any], *, _seen: frozenset[str] = frozenset()) -> set[str]:
    """Return the names of the query parameters that a handler reads, with the functions of its module that it calls."""
    module = inspect.getmodule(handler)
    found: set[str] = set()
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(handler)))):
        if not isinstance(node, ast.Call):
            continue
        names = [argument.value for argument in node.args if isinstance(argument, ast.Constant) and isinstance(argument.value, str)]
        match node.func:
            case ast.Attribute(attr="get" | "getlist", value=ast.Attribute(attr="query_params")):
                found.update(names[:1])
            case ast.Name(id="flag" | "_flag"):
                found.update(names[:1])
            case ast.Name(id="_page"):
                found.update(("offset", "limit"))
            case ast.Name(id=name) if name not in _seen:
                called = getattr(module, name, None)
                if inspect.isfunction(called) and inspect.getmodule(called) is module:
                    found |= queried(called, _seen=_seen | {handler.__name__, name})
    return found


def _open_on_the_readonly_listener() -> Callable[[str, str], bool]:
    own = [route for tag, route in routes() if tag != REGISTRY]
    registry = [route for tag, route in routes() if tag == REGISTRY]
    opened = reading_routes(own, registry)[:-1]  # the last one refuses all others

    def is_open(method: str, path: str) -> bool:
        scope = {
            "type": "http",
            "method": method,
            "path": re.sub(r"\{\w+\}", "x", path),
            "headers": [],
            "query_string": b"",
            "root_path": "",
        }
        return any(route.matches(scope)[0] is Match.FULL for route in opened)

    return is_open
