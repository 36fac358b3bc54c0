"""Find whom the programs talk to, and what they take from there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from audit.data_rules import is_mode
from audit.syntax import Source, is_literal, keyword

_FALSE = ast.Constant(value=False)
_POOLS = ("urllib3.PoolManager", "urllib3.HTTPConnectionPool", "urllib3.HTTPSConnectionPool", "urllib3.request")
_VERBS = ("request", "get", "post", "put", "patch", "delete", "send")
_HTTPX = ("httpx.Client", "httpx.AsyncClient", "httpx.stream", *(f"httpx.{verb}" for verb in _VERBS))


def redirects(source: Source) -> Iterator[ast.AST]:
    for name, call in source.calls:
        if name in ("urllib.request.urlopen", "urllib.request.urlretrieve", "urllib.request.install_opener") or (
            name.startswith("requests.") and "requests" in source.imported
        ):
            yield call
        elif name == "urllib.request.build_opener":
            if not any("Redirect" in ast.unparse(given) for given in call.args):
                yield call
        elif (name.startswith("httpx.") and not is_literal(keyword(call, "follow_redirects") or _FALSE, False)) or (
            name in _POOLS and not is_literal(keyword(call, "redirect"), False)
        ):
            yield call


def environment_proxies(source: Source) -> Iterator[ast.AST]:
    for name, call in source.calls:
        if name == "urllib.request.build_opener":
            if not any(ast.unparse(given).endswith("ProxyHandler({})") for given in call.args):
                yield call
        elif name in _HTTPX and not is_literal(keyword(call, "trust_env"), False):
            yield call


_CLIENTS = (
    "socket.create_connection", "asyncio.open_connection", "psycopg2.connect", "pymysql.connect", "pymysql.connections.Connection",
    "confluent_kafka.Producer", "confluent_kafka.Consumer", "confluent_kafka.admin.AdminClient", "confluent_kafka.DeserializingConsumer",
    "confluent_kafka.SerializingProducer", "httpx.Client", "httpx.AsyncClient", "urllib.request.build_opener", "urllib.request.urlopen",
    "http.client.HTTPConnection", "http.client.HTTPSConnection", "smtplib.SMTP", "ftplib.FTP", "ldap3.Connection",
)  # fmt: skip

_CLIENT_CLASSES = ("GuardedConnection", "BatchProducer")
"""The project's own classes of a client."""


def clients_of_hosts(source: Source) -> Iterator[ast.AST]:
    for name, call in source.calls:
        last = name.rpartition(".")[2]
        if name in _CLIENTS or last in _CLIENT_CLASSES or (last in ("connect", "connect_ex") and "sock" in name.rpartition(".")[0].lower()):
            yield call


def unverified_tls(source: Source) -> Iterator[ast.AST]:
    for name, call in source.calls:
        if is_literal(keyword(call, "verify"), False) or name.startswith("ssl._create_") or (name == "ssl.SSLContext" and not call.args):
            yield call
    for attribute in source.of(ast.Attribute):
        if (
            attribute.attr == "CERT_NONE"
            and source.full_name(attribute) == "ssl.CERT_NONE"
            and not isinstance(source.parents[attribute], ast.Compare)
        ):
            yield attribute
    for node in source.of(ast.Assign):
        if not is_literal(node.value, True):
            yield from (node for target in node.targets if isinstance(target, ast.Attribute) and target.attr == "check_hostname")


def unbounded_answers(source: Source) -> Iterator[ast.AST]:
    opened = {"open", "urlopen", "getresponse", "stream", "accept", "makefile"}
    answers = set()
    for node in source.of(ast.withitem):
        if isinstance(node.optional_vars, ast.Name) and isinstance(node.context_expr, ast.Call):
            name = source.full_name(node.context_expr.func)
            if name.rpartition(".")[2] in opened and not is_mode(node.context_expr) and name not in ("open", "os.open"):
                answers.add(node.optional_vars.id)
    for handler in source.of(ast.ExceptHandler):
        if handler.name and handler.type is not None and "HTTPError" in ast.unparse(handler.type):
            answers.add(handler.name)
    for _, call in source.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("read", "aread", "readline", "readlines") and not call.args:
            value = call.func.value
            if (isinstance(value, ast.Name) and value.id in answers) or (
                isinstance(value, ast.Call) and source.full_name(value.func).rpartition(".")[2] in opened and not is_mode(value)
            ):
                yield call
    # These read a whole answer into memory unless asked to stream.
    if any(name in ("httpx.Client", "httpx.AsyncClient") for name, _ in source.calls):
        for _, call in source.calls:
            whole = isinstance(call.func, ast.Attribute) and call.func.attr in _VERBS and "client" in ast.unparse(call.func.value).lower()
            if whole and not is_literal(keyword(call, "stream"), True):
                yield call


def servers_that_believe_proxies(source: Source) -> Iterator[ast.AST]:
    for name, call in source.calls:
        if name in ("uvicorn.Config", "uvicorn.run"):
            trusting = keyword(call, "proxy_headers")
            if not is_literal(trusting, False) and (trusting is None or keyword(call, "forwarded_allow_ips") is None):
                yield call
