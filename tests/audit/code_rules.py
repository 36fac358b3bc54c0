"""Rules about the project's own code, beside those of bandit and ruff: each holds a kind of weakness that a review of security has looked for.

A rule reads a file's syntax and yields what breaks it. It is stricter than it has to be where the syntax alone cannot tell: who opens a file, makes a client
of a host or follows a pattern writes into `code_exceptions.txt` why that is right, and a reader of a change sees that line.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from audit.connection_rules import (
    clients_of_hosts,
    environment_proxies,
    redirects,
    servers_that_believe_proxies,
    unbounded_answers,
    unverified_tls,
)
from audit.data_rules import code_from_data, files_by_name, guessable_names, patterns_of_others, shells, unpacked_archives, yaml_objects
from audit.syntax import Source
from audit.text_rules import compared_secrets, logged_traces, quoted_driver_errors, unquoted_sql

PROGRAMS = ("connect-worker/src", "spark-sink/src")
"""What runs at users'."""

ALL = (*PROGRAMS, "docker")
"""With what builds, downloads and demonstrates it."""


@dataclass(frozen=True)
class Rule:
    """A kind of weakness."""

    name: str
    finds: str
    why: str
    find: Callable[[Source], Iterator[ast.AST]]
    folders: tuple[str, ...] = PROGRAMS


RULES = (
    Rule("redirects", "a client that follows redirects", "a login goes on to any host that an answer names", redirects),
    Rule("environment-proxies", "a client that takes proxies of the environment", "a login reaches a proxy that nobody configured here", environment_proxies),
    Rule("shells", "a command that a shell reads", "a name becomes a command", shells, ALL),
    Rule("yaml-objects", "YAML that makes more than texts, lists and maps", "a file makes objects of any class", yaml_objects, ALL),
    Rule("code-from-data", "data that becomes code, or a module or library whose name is no constant", "whoever writes the data runs code", code_from_data, ALL),
    Rule("files-by-name", "a file opened by a name that is no constant", "a configuration's names are for `NamedFile`: bounded, regular, no oracle", files_by_name),
    Rule("clients-of-hosts", "a client or socket made for a host", "a connector's hosts are looked up in `dblog.connector.allowed.hosts` first", clients_of_hosts),
    Rule("unquoted-sql", "a statement with a part that no function has quoted", "a table's or a user's name becomes SQL", unquoted_sql),
    Rule("compared-secrets", "a secret compared with == or !=", "the time of the answer shows how much of it is right", compared_secrets),
    Rule("unpacked-archives", "an archive unpacked without a filter", "a member's name leads out of the folder", unpacked_archives, ALL),
    Rule("guessable-names", "a temporary file that is named before it is made", "somebody else makes it in between", guessable_names, ALL),
    Rule("unverified-tls", "TLS that takes any certificate", "whoever is on the way gets login and rows", unverified_tls),
    Rule("unbounded-answers", "an answer read whole, whatever its size", "a server that lies fills the memory", unbounded_answers),
    Rule("believed-proxies", "a server that believes X-Forwarded-For of whom nobody has named", "a client chooses its own address", servers_that_believe_proxies),
    Rule("quoted-driver-errors", "a database's error in a text or a log as it is", "its text has values of rows", quoted_driver_errors),
    Rule("logged-traces", "a trace in the log", "the error's text comes with it, whatever it holds", logged_traces),
    Rule("patterns-of-others", "a pattern for `re` that is not the program's own", "some patterns take for ever; users' are for the program's own engine", patterns_of_others),
)  # fmt: skip
