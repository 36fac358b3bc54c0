"""Confluent's registry interface over the worker's own registry: ``/subjects``, ``/schemas``,
``/config``, ``/mode``, ``/compatibility``.

Paths, bodies and error codes are Confluent's, so its clients and converters work unchanged. One
request is added (``TOGETHER_PATH``): it registers many schemas, because a dump of a thousand small
tables spends more time on two thousand requests than on its rows. Writes wait for Kafka, one after
the other, and run in threads.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import unquote

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dblog.errors import TransientError
from dblog.kafka.registry_answers import TOGETHER_MAX, TOGETHER_PATH
from dblog.kafka.registry_store import Given, Reference, Registered, RegistryError, RegistryStore
from dblog.rest.api import is_set
from dblog.rest.bodies import BadBodyError, parse_body
from dblog.rest.threads import Threads

T = TypeVar("T")

_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_READY_LIMIT_S = 30.0
_DIGITS_MAX = 10
_SCHEMA_CHARS_MAX = 1_000_000

_LIST_CHARS_MAX = 24 * 1024 * 1024
"""Characters of the schemas in one answer, which is in memory three times while it is made."""

_Item = TypeVar("_Item")
_CALL_LIMIT_S = 90.0
_CALLS_MAX = 32

Handler = Callable[[RegistryStore, HttpRequest], Awaitable[object]]


def registry_routes(store: RegistryStore) -> list[BaseRoute]:
    """Return all routes of the registry."""
    table: list[tuple[str, str, Handler]] = [
        ("GET", "/subjects", _subjects),
        ("POST", "/subjects/{subject}", _lookup),
        ("DELETE", "/subjects/{subject}", _delete_subject),
        ("GET", "/subjects/{subject}/versions", _versions),
        ("POST", "/subjects/{subject}/versions", _register),
        ("GET", "/subjects/{subject}/versions/{version}", _version),
        ("DELETE", "/subjects/{subject}/versions/{version}", _delete_version),
        ("GET", "/subjects/{subject}/versions/{version}/schema", _version_schema),
        ("GET", "/subjects/{subject}/versions/{version}/referencedby", _referenced_by),
        ("GET", "/schemas", _schemas),
        ("POST", TOGETHER_PATH, _register_together),
        ("GET", "/schemas/types", _types),
        ("GET", "/schemas/ids/{id}", _schema),
        ("GET", "/schemas/ids/{id}/schema", _schema_text),
        ("GET", "/schemas/ids/{id}/versions", _schema_versions),
        ("GET", "/schemas/ids/{id}/subjects", _schema_subjects),
        ("GET", "/config", _level),
        ("PUT", "/config", _set_level),
        ("DELETE", "/config", _clear_level),
        ("GET", "/config/{subject}", _level),
        ("PUT", "/config/{subject}", _set_level),
        ("DELETE", "/config/{subject}", _clear_level),
        ("GET", "/mode", _mode),
        ("PUT", "/mode", _set_mode),
        ("GET", "/mode/{subject}", _mode),
        ("PUT", "/mode/{subject}", _set_mode),
        ("DELETE", "/mode/{subject}", _clear_mode),
        ("POST", "/compatibility/subjects/{subject}/versions", _compatibility),
        ("POST", "/compatibility/subjects/{subject}/versions/{version}", _compatibility),
    ]
    busy = f"{_CALLS_MAX} other requests to the registry still wait for Kafka; are the brokers reachable? Try again later"
    calls = Threads("registry", limit=_CALLS_MAX, busy=busy)
    return [Route(path, partial(_serve, store, calls, handler), methods=[method]) for method, path, handler in table]


async def _serve(store: RegistryStore, calls: Threads, handler: Handler, request: HttpRequest) -> Response:
    answer = await _answer(store, calls, handler, request)
    wrong = "server_error" if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR else "client_error"
    store.requests["ok" if answer.status_code < HTTPStatus.BAD_REQUEST else wrong] += 1
    return answer


async def _answer(store: RegistryStore, calls: Threads, handler: Handler, request: HttpRequest) -> Response:
    """Run a handler and return its answer, or its error, in Confluent's shape."""
    request.state.calls = calls
    try:
        if not await is_set(store.ready, limit_s=_READY_LIMIT_S):
            raise RegistryError(50003, "The registry has not read its topic yet; are the brokers reachable?")
        answer = await handler(store, request)
    except RegistryError as e:
        return _json(_error(e), status=e.status)
    except TransientError as e:
        return _json({"error_code": 50001, "message": f"Error in the backend data store: {e}"}, status=500)
    return answer if isinstance(answer, Response) else _json(answer)


def _json(content: object, *, status: int = 200) -> Response:
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    return Response(body, status_code=status, media_type=_MEDIA_TYPE)


def _error(error: RegistryError) -> dict[str, Any]:
    return {"error_code": error.code, "message": error.message}


async def _in_thread(request: HttpRequest, work: Callable[..., T], *arguments: object, **options: object) -> T:
    calls: Threads = request.state.calls
    try:
        return await calls.call(partial(work, *arguments, **options), limit_s=_CALL_LIMIT_S)
    except TimeoutError as e:
        raise RegistryError(50002, f"Operation timed out: Kafka has not answered within {_CALL_LIMIT_S:.0f} s") from e


async def _subjects(store: RegistryStore, request: HttpRequest) -> object:
    prefix = request.query_params.get("subjectPrefix", "")
    return _page(request, store.subjects(deleted=_deleted(request), prefix=prefix.removeprefix(":*:")))


async def _lookup(store: RegistryStore, request: HttpRequest) -> object:
    text, references, type_name = await _schema_body(request)
    found = await _in_thread(request, store.lookup, _subject(request), text, references, type_name, deleted=_deleted(request))
    return _version_answer(found)


async def _register(store: RegistryStore, request: HttpRequest) -> object:
    text, references, type_name = await _schema_body(request)
    entry = await _in_thread(request, store.register, _subject(request), text, references, type_name)
    return {"id": entry.id}


async def _register_together(store: RegistryStore, request: HttpRequest) -> object:
    """Register a list of bodies as for ``_register``, each with its subject.

    Answers with a list of what ``_register`` would answer to each, in order and with errors.
    """
    given = await _json_body(request)
    if not isinstance(given, list):
        raise RegistryError(400, "The request body must be a list of JSON objects")
    if len(given) > TOGETHER_MAX:
        raise RegistryError(42200, f"The list has {len(given)} schemas, and {TOGETHER_MAX} can be registered together")
    wrong: dict[int, RegistryError] = {}
    right: dict[int, Given] = {}
    for number, body in enumerate(given):
        try:
            right[number] = _given(body)
        except RegistryError as e:
            wrong[number] = e
    registered = dict(zip(right, await _in_thread(request, store.register_all, list(right.values())), strict=True))
    return [
        {"id": outcome.id} if isinstance(outcome, Registered) else _error(outcome) for _, outcome in sorted((registered | wrong).items())
    ]


def _given(body: Any) -> Given:
    if not isinstance(body, dict):
        raise RegistryError(400, "The request body must be a list of JSON objects")
    if not (subject := _word(body, "subject")):
        raise RegistryError(42200, "A schema of the list has no subject")
    return Given(subject, *_schema_in(body))


async def _delete_subject(store: RegistryStore, request: HttpRequest) -> object:
    return await _in_thread(request, store.delete_subject, _subject(request), permanent=_flag(request, "permanent"))


async def _versions(store: RegistryStore, request: HttpRequest) -> object:
    return _page(request, [entry.version for entry in store.versions(_subject(request), deleted=_deleted(request))])


async def _version(store: RegistryStore, request: HttpRequest) -> object:
    return _version_answer(store.version(_subject(request), request.path_params["version"], deleted=_deleted(request)))


async def _version_schema(store: RegistryStore, request: HttpRequest) -> object:
    return _text(store.version(_subject(request), request.path_params["version"], deleted=_deleted(request)).schema)


async def _delete_version(store: RegistryStore, request: HttpRequest) -> object:
    version = request.path_params["version"]
    return await _in_thread(request, store.delete_version, _subject(request), version, permanent=_flag(request, "permanent"))


async def _referenced_by(store: RegistryStore, request: HttpRequest) -> object:
    entry = store.version(_subject(request), request.path_params["version"])
    version_key = (entry.subject, entry.version)
    return _page(request, [user.id for user in store.all() if any((r.subject, r.version) == version_key for r in user.references)])


async def _schemas(store: RegistryStore, request: HttpRequest) -> object:
    found = store.all(
        deleted=_deleted(request), prefix=request.query_params.get("subjectPrefix", ""), latest_only=_flag(request, "latestOnly")
    )
    page = _page(request, found)
    size = sum(len(entry.schema) for entry in page)
    if size > _LIST_CHARS_MAX:
        raise RegistryError(
            42200,
            f"The schemas asked for have {size} characters, and one answer takes {_LIST_CHARS_MAX}; ask for fewer with offset and limit",
        )
    return [_version_answer(entry) for entry in page]


async def _types(_store: RegistryStore, _request: HttpRequest) -> object:
    return ["AVRO"]


async def _schema(store: RegistryStore, request: HttpRequest) -> object:
    entry = store.schema(_id(request))
    answer: dict[str, Any] = {"schema": entry.schema}
    if entry.type != "AVRO":
        answer["schemaType"] = entry.type
    if entry.references:
        answer["references"] = _references(entry)
    if _flag(request, "fetchMaxId"):
        answer["maxId"] = max((e.id for e in store.all(deleted=True)), default=entry.id)
    return answer


async def _schema_text(store: RegistryStore, request: HttpRequest) -> object:
    return _text(store.schema(_id(request)).schema)


async def _schema_versions(store: RegistryStore, request: HttpRequest) -> object:
    page = _page(request, store.uses(_id(request), deleted=_deleted(request)))
    return [{"subject": entry.subject, "version": entry.version} for entry in page]


async def _schema_subjects(store: RegistryStore, request: HttpRequest) -> object:
    return _page(request, list(dict.fromkeys(entry.subject for entry in store.uses(_id(request), deleted=_deleted(request)))))


async def _level(store: RegistryStore, request: HttpRequest) -> object:
    return {"compatibilityLevel": store.level(_subject_or_none(request), or_global=_flag(request, "defaultToGlobal")).value}


async def _set_level(store: RegistryStore, request: HttpRequest) -> object:
    level = _word(await _body(request), "compatibility")
    return {"compatibility": (await _in_thread(request, store.set_level, _subject_or_none(request), level)).value}


async def _clear_level(store: RegistryStore, request: HttpRequest) -> object:
    return {"compatibilityLevel": (await _in_thread(request, store.clear_level, _subject_or_none(request))).value}


async def _mode(store: RegistryStore, request: HttpRequest) -> object:
    return {"mode": store.mode(_subject_or_none(request), or_global=_flag(request, "defaultToGlobal"))}


async def _set_mode(store: RegistryStore, request: HttpRequest) -> object:
    mode = _word(await _body(request), "mode")
    return {"mode": await _in_thread(request, store.set_mode, _subject_or_none(request), mode)}


async def _clear_mode(store: RegistryStore, request: HttpRequest) -> object:
    return {"mode": await _in_thread(request, store.clear_mode, _subject(request))}


async def _compatibility(store: RegistryStore, request: HttpRequest) -> object:
    text, references, type_name = await _schema_body(request)
    problems = await _in_thread(request, store.problems, _subject(request), text, references, type_name, request.path_params.get("version"))
    answer: dict[str, Any] = {"is_compatible": not problems}
    if _flag(request, "verbose"):
        answer["messages"] = problems
    return answer


async def _schema_body(request: HttpRequest) -> tuple[str, tuple[Reference, ...], str]:
    return _schema_in(await _body(request))


def _schema_in(body: Mapping[str, Any]) -> tuple[str, tuple[Reference, ...], str]:
    text = body.get("schema")
    if not isinstance(text, str) or not text.strip():
        raise RegistryError(42201, "Empty schema")
    if len(text) > _SCHEMA_CHARS_MAX:
        raise RegistryError(42201, f"The schema has more than {_SCHEMA_CHARS_MAX} characters, and a record of Kafka takes no more")
    try:
        references = tuple(Reference(str(r["name"]), str(r["subject"]), int(r["version"])) for r in body.get("references") or ())
    except (KeyError, OverflowError, TypeError, ValueError) as e:
        raise RegistryError(42201, "A schema reference needs name, subject and version") from e
    type_name = body.get("schemaType")
    return text, references, "AVRO" if type_name is None else str(type_name)


async def _json_body(request: HttpRequest) -> Any:
    try:
        return parse_body(await request.body())
    except BadBodyError as e:
        raise RegistryError(400, str(e)) from e


async def _body(request: HttpRequest) -> dict[str, Any]:
    body = await _json_body(request)
    if not isinstance(body, dict):
        raise RegistryError(400, "The request body must be a JSON object")
    return body


def _word(body: Mapping[str, Any], name: str) -> str:
    """Return a text of the body, or an empty one, which is neither a level nor a mode.

    A null must not become the level NONE.
    """
    text = body.get(name)
    return text if isinstance(text, str) else ""


def _version_answer(entry: Registered) -> dict[str, Any]:
    answer: dict[str, Any] = {"subject": entry.subject, "version": entry.version, "id": entry.id}
    if entry.type != "AVRO":
        answer["schemaType"] = entry.type
    if entry.references:
        answer["references"] = _references(entry)
    return {**answer, "schema": entry.schema}


def _references(entry: Registered) -> list[dict[str, Any]]:
    return [{"name": r.name, "subject": r.subject, "version": r.version} for r in entry.references]


def _text(schema: str) -> Response:
    return Response(schema.encode(), media_type=_MEDIA_TYPE)


def _subject(request: HttpRequest) -> str:
    return unquote(request.path_params["subject"])


def _subject_or_none(request: HttpRequest) -> str | None:
    return unquote(request.path_params["subject"]) if "subject" in request.path_params else None


def _id(request: HttpRequest) -> int:
    text = request.path_params["id"]
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        raise RegistryError(404, "HTTP 404 Not Found")
    return int(text)


def _page(request: HttpRequest, found: Sequence[_Item]) -> Sequence[_Item]:
    """Return the page that Confluent's ``offset`` and ``limit`` select.

    A negative limit means none.
    """
    offset, limit = (_number(request, name, default) for name, default in (("offset", 0), ("limit", -1)))
    return found[max(0, offset) :][: None if limit < 0 else limit]


def _number(request: HttpRequest, name: str, default: int) -> int:
    text = request.query_params.get(name, str(default))
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX):
        raise RegistryError(404, "HTTP 404 Not Found")
    return int(text)


def _flag(request: HttpRequest, name: str) -> bool:
    return request.query_params.get(name, "").lower() == "true"


def _deleted(request: HttpRequest) -> bool:
    return _flag(request, "deleted")
