"""Makes the pages of the site that come from code: options, the REST interface, and the style sheet.

They are made at each build and stand in no repository, so they cannot be older than the code.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from dblog.config.connector import MARIADB_OPTIONS, MYSQL_OPTIONS, POSTGRES_OPTIONS
from dblog.config.framework import FRAMEWORK_OPTIONS
from dblog.config.options import Option
from dblog.config.reference import reference_page
from dblog.config.worker_options import WORKER_OPTIONS
from dblog_sink.config.job_options import OPTIONS as JOB_OPTIONS
from dblog_sink.config.options import Option as SinkOption
from dblog_sink.config.tables import TABLE_OPTIONS

from handbook import rest
from handbook.markdown import slug

FOLDER = "docs/made"
STYLE = f"{FOLDER}/site.css"
OPENAPI = f"{FOLDER}/openapi.json"
DISK_SEARCH = f"{FOLDER}/disk-search.js"

_OPTIONS = {
    "worker": ("Options of the worker's file", "Keys of the file that `dblog worker` is given.", WORKER_OPTIONS),
    "mysql": ("Options of a MySQL connector", "Keys of a connector whose class is `MySqlConnector`.", MYSQL_OPTIONS),
    "mariadb": ("Options of a MariaDB connector", "Keys of a connector whose class is `MariaDbConnector`.", MARIADB_OPTIONS),
    "postgres": ("Options of a PostgreSQL connector", "Keys of a connector whose class is `PostgresConnector`.", POSTGRES_OPTIONS),
    "connector": ("Options of every connector", "Keys that Kafka Connect itself reads of a connector.", FRAMEWORK_OPTIONS),
}


def made_pages() -> dict[str, str]:
    """Return the text of each made file by its path on the site."""
    document = rest.document()
    return {
        **{f"{FOLDER}/options-{of}.md": _options(of, *about) for of, about in _OPTIONS.items()},
        f"{FOLDER}/options-sink.md": _sink_options(),
        f"{FOLDER}/rest.md": _rest(document),
        OPENAPI: json.dumps(document, indent=1) + "\n",
        STYLE: _STYLE,
        DISK_SEARCH: _DISK_SEARCH,
    }


def _options(of: str, title: str, about: str, options: Sequence[Option]) -> str:
    listed = [option for option in options if option.listed]
    with_effect = sorted((option for option in listed if option.no_effect is None), key=_group)
    parts = [f"# {title}\n", f"{about} The same list on a terminal:\n", f"    dblog options {of}\n"]
    parts += [f"Go to: {', '.join(f'[{name}](#{slug(name)})' for name in dict.fromkeys(map(_group, with_effect)))}.\n"]
    for group, inside in groupby(with_effect, key=_group):
        parts += [f"## {group}\n", reference_page(list(inside)) + "\n"]
    if without := [option for option in listed if option.no_effect is not None]:
        parts += [
            "## Accepted, without effect\n",
            "These keys are read so that a file for a Java worker can be used as it is.\n",
            reference_page(without) + "\n",
        ]
    return "\n".join(parts)


def _group(option: Option) -> str:
    if option.group is not None:
        return option.group
    return "dblog's own keys" if option.name.startswith("dblog.") else "Kafka Connect's keys"


def _sink_options() -> str:
    return "\n".join(
        [
            "# Options of the sink\n",
            "Keys of the file that `dblog-sink --config` is given. The same list on a terminal:\n",
            "    dblog-sink --help\n",
            "## The job\n",
            _sink_table(JOB_OPTIONS),
            "`kafka.*` goes to the Kafka clients; `kafka.bootstrap.servers` is required. `spark.*` goes to Spark.\n",
            "## Tables\n",
            "Keys `table.<rule>.<setting>`; `table.<rule>.match` is a regular expression for the whole of `db.table`.\n",
            _sink_table(TABLE_OPTIONS),
        ]
    )


def _sink_table(options: Iterable[SinkOption]) -> str:
    lines = ["| Key | Default | Meaning |", "| --- | --- | --- |"]
    for option in options:
        default = "-" if option.default is None else f"`{_cell(option.default)}`" if option.default else "empty"
        lines.append(f"| `{option.name}` | {default} | {_cell(option.doc)} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return (
        text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;") if "`" not in text else text.replace("|", "\\|").replace("\n", " ")
    )


def _rest(document: dict[str, Any]) -> str:
    parts = [
        "---\nhide: [toc]\n---\n",
        "# REST interface\n",
        (
            "Kafka Connect's interface, dumps on demand, and a schema registry with Confluent's interface, all on the address in "
            "`listeners`. This page is made from the code; [openapi.json](openapi.json) has the same for programs.\n"
        ),
        "    curl -s http://HOST:8083/connectors\n",
        (
            "- **Role** is what a login needs: each role includes those before it in `reader`, `viewer`, `operator`, `admin`.\n"
            "- **Open** requests are answered by `dblog.rest.readonly.listener` too, without a login.\n"
            '- An error has the body `{"error_code": 404, "message": "..."}`.\n'
            "- 401: no login; 403: the role is missing; 429: too many wrong logins or changes; 503: try again later.\n"
        ),
    ]
    operations = [(path, method, operation) for path, methods in document["paths"].items() for method, operation in methods.items()]
    tags = [(entry["name"], [one for one in operations if entry["name"] in one[2]["tags"]]) for entry in document["tags"]]
    for tag, inside in tags:
        rows = [
            f"| [{_named(method, path)}](#{slug(_named(method, path))}) | {one['summary']} | {_needs(one)} |"
            for path, method, one in inside
        ]
        parts += [f"**{tag}**\n", "\n".join(["| request | what | needs |", "|---|---|---|", *rows]) + "\n"]
    for tag, inside in tags:
        parts += [f"## {tag}\n", *(_operation(path, method, one) for path, method, one in inside)]
    return "\n".join(parts)


def _named(method: str, path: str) -> str:
    return f"{method.upper()} {path}"


def _needs(operation: dict[str, Any]) -> str:
    role = operation["x-role"]
    return ("no login" if role is None else f"`{role}`") + (", open" if operation["x-readonly-listener"] else "")


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    lines = [f"### {_named(method, path)}\n", f"{operation['summary']} Needs {_needs(operation)}.\n"]
    if parameters := [one for one in operation["parameters"] if one["in"] == "query"]:
        lines += ["| query | meaning |\n|---|---|\n" + "".join(f"| `{one['name']}` | {one['description']} |\n" for one in parameters)]
    if "requestBody" in operation:
        body = operation["requestBody"]["content"]["application/json"]["example"]
        lines += [f"Body:\n\n```json\n{json.dumps(body)}\n```\n"]
    lines += [
        "| answer | when |\n|---|---|\n" + "".join(f"| {code} | {one['description']} |\n" for code, one in operation["responses"].items())
    ]
    return "\n".join(lines)


_STYLE = """\
/* Fonts of the reader's system. Wide tables scroll in themselves; pictures of characters keep their shape. */
:root {
  --md-text-font: system-ui, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif;
  --md-code-font: ui-monospace, "SF Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace;
}
.md-grid { max-width: 80rem; }
.md-typeset pre > code { font-size: .68rem; line-height: 1.25; }
.md-typeset table:not([class]) { font-size: .7rem; }
.md-typeset table:not([class]) th { min-width: 0; }
.md-typeset table:not([class]) td { vertical-align: top; padding: .6em .9em; }
.md-typeset table:not([class]) code { word-break: normal; overflow-wrap: normal; }
.md-typeset img { display: block; margin: 1em auto; }
"""

_DISK_SEARCH = """\
/* Browsers start no worker for a page that is opened from the disk. There the search's script runs in a hidden frame. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html><body></body>";
      frame.addEventListener("load", () => this.start(frame.contentWindow, url), { once: true });
      document.body.append(frame);
    }

    start(inside, url) {
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = url;
      script.addEventListener("load", () => {
        this.inside = inside;
        this.waiting.splice(0).forEach(data => this.postMessage(data));
      });
      inside.document.body.append(script);
    }

    postMessage(data) {
      if (this.inside) this.inside.dispatchEvent(new MessageEvent("message", { data }));
      else this.waiting.push(data);
    }
  };
}
"""
