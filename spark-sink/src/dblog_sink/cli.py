"""The command line: parses, and calls.

``dblog-sink`` runs the job. ``dblog-sink submit --config sink.yaml --set key=value -- <options of spark-submit>`` starts it by spark-submit (``--print``:
shows the line), and ``dblog-sink jars`` prints what it needs in ``--jars``. ``dblog-sink --version`` prints its version.

``park TABLE``, ``resume TABLE``, ``replay [TABLE]`` and ``maintain [TABLE]`` leave a command for the job that runs, or for the next one. ``explain TABLE
KEY``, ``show TABLE``, ``verified [TABLE]``, ``snapshots`` and ``as-of POINT`` answer by themselves.

Exit status 0: asked to stop, or trigger.once is done; 1: a failure that needs a person, logged in one sentence, or ``verified`` shows rows that are not the
source's; 2: a configuration that cannot be accepted. Failures that may pass restart the query from its checkpoint with growing pauses.
"""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import sys
from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from dblog_sink.config import job_options
from dblog_sink.config.job_options import Settings
from dblog_sink.delta.jars import check_versions, jars
from dblog_sink.delta.session import spark_session
from dblog_sink.errors import ConfigError, DefiniteError
from dblog_sink.job import commands, start, submit
from dblog_sink.job.commands import Command
from dblog_sink.observe import logs
from dblog_sink.query import answer
from dblog_sink.state import files

log = logging.getLogger("dblog_sink")

_QUESTIONS = ("explain", "show", "verified", "snapshots", "as-of")


def main(arguments: list[str] | None = None) -> int:
    """Run the sink until it is stopped, or carry out the verb. Return the exit status."""
    logs.configure()
    given = sys.argv[1:] if arguments is None else arguments
    try:
        if given == ["--version"]:
            print(_version())
            return 0
        if given[:1] == ["jars"]:
            print(",".join(map(str, jars(os.environ))))
            return 0
        if given[:1] == ["submit"]:
            return _submit(given[1:])
        return _called(given)
    except ConfigError as e:
        for key, text in e.errors.items():
            log.error("%s %s", key, text)
        return 2
    except DefiniteError as e:
        log.error("the sink does not start: %s", e)
        return 1


def _version() -> str:
    try:
        return version("dblog-sink")
    # There is only a source tree, or the archive that spark-submit was given.
    except PackageNotFoundError:
        return "0.0.0+source"


def _submit(given: Sequence[str]) -> int:
    """Become spark-submit, or print its command line.

    ``given`` has the sink's options and, after ``--``, options of spark-submit.
    """
    own, spark = (given[: given.index("--")], given[given.index("--") + 1 :]) if "--" in given else (given, [])
    parser = argparse.ArgumentParser(
        prog="dblog-sink submit", description="Run the job by spark-submit. Behind --: options of spark-submit."
    )
    _add_configuration(parser)
    parser.add_argument("--print", action="store_true", help="only print the line")
    parsed = parser.parse_args(own)
    properties = _properties(parsed)
    # Otherwise only the driver's machine has what its placeholders name.
    if job_options.resolves_here(properties):
        job_options.parse(properties)
    added = jars(os.environ)
    if (own_jars := submit.spark_jars()) is not None:
        check_versions(added, own_jars)
    program, code = submit.archive(Path(sys.prefix) / "share" / "dblog-sink")
    line = submit.line(
        spark=spark,
        sink=[part for pair in parsed.set for part in ("--set", pair)],
        files=parsed.config,
        jars=added,
        program=program,
        code=code,
        properties=properties,
    )
    if not parsed.print:
        # Spark starts its Python workers by -m; without PYTHONSAFEPATH they would import from the
        # current directory.
        variables = {"PYSPARK_PYTHON": sys.executable, "PYTHONSAFEPATH": "1"}
        os.execve(line[0], line, {**variables, **os.environ})  # noqa: S606  signals go to it, and its exit status is ours
    print(shlex.join(line))
    return 0


def _called(given: Sequence[str]) -> int:
    parsed = _parser().parse_args(given)
    properties = _properties(parsed)
    # So that faults of the other options are logged in JSON too.
    if properties.get("log.format") == "json":
        logs.configure(layout="json")
    settings = job_options.parse(properties)
    logs.configure(layout=settings["log.format"], level=settings["log.level"], secrets=settings.secrets)
    match parsed.verb:
        case "run":
            return start.run(settings)
        case "snapshots":
            return answer.show_snapshots(settings, point=None, as_json=parsed.json)
        case "as-of":
            return answer.show_snapshots(settings, point=_point(parsed.table), as_json=parsed.json)
        case "verified":
            return answer.show_verified(settings, table=parsed.table, as_json=parsed.json)
        case "replay" | "maintain":
            pass
        case _ if parsed.table is None:
            raise ConfigError({parsed.verb: "needs a table: db.table, or a topic"})
        case "show":
            return answer.show_rows(settings, table=parsed.table, rows_max=max(0, parsed.n))
        case "explain":
            if parsed.key is None:
                raise ConfigError({"explain": "needs a table and a key: explain shop.orders 4711"})
            return answer.explain_row(settings, table=parsed.table, key=parsed.key, as_json=parsed.json)
    return _leave(settings, Command(verb=parsed.verb, table=parsed.table, reason=parsed.reason))


def _leave(settings: Settings, command: Command) -> int:
    """Leave a command for the job."""
    path = f"{settings.state_path}/commands"
    session = None if files.is_local(path, settings.spark) else spark_session(f"{settings['name']}-{command.verb}", settings.spark)
    name = commands.ask(files.folder(session, path), command)
    log.info("%s is left in %s as %s; the job does it between two batches, or when it starts", command.verb, path, name)
    if session is not None:
        session.stop()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dblog-sink", description=__doc__, epilog=job_options.help_text(), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "verb", nargs="?", choices=("run", *commands.VERBS, *_QUESTIONS), default="run", help="run the job, or ask something of it"
    )
    parser.add_argument(
        "table", nargs="?", help="db.table or a topic; replay, maintain, verified: all without it; as-of: position=, gtid=, lsn= or time="
    )
    parser.add_argument("key", nargs="?", help="explain: the key of a row, 4711 or order_id=4711,line=2")
    parser.add_argument("-n", type=int, default=10, metavar="ROWS", help="show: how many of the newest rows; 0: only how many there are")
    parser.add_argument("--json", action="store_true", help="explain, verified, snapshots, as-of: answer in JSON")
    parser.add_argument("--reason", help="park: why; replay: only records whose reason contains this")
    _add_configuration(parser)
    return parser


def _add_configuration(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, action="append", default=[], help="YAML or properties file; may be given more than once")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one option; wins over files")


def _properties(parsed: argparse.Namespace) -> dict[str, str]:
    """Return the files' properties, each overriding the one before, and then those of --set."""
    properties: dict[str, str] = {}
    for file in parsed.config:
        properties.update(job_options.read_file(file))
    for pair in parsed.set:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError({f"--set {pair}": "must be KEY=VALUE"})
        properties[key.strip()] = value
    return properties


def _point(given: str | None) -> dict[str, Any]:
    """Return the arguments of ``as_of`` for text such as ``gtid=0-1-5``; none for the newest
    snapshot.
    """
    if given is None:
        return {}
    name, equals, value = given.partition("=")
    if not equals or name not in ("position", "gtid", "lsn", "time"):
        raise ConfigError({"as-of": "needs position=, gtid=, lsn= or time=, or nothing for the newest snapshot"})
    if name != "time":
        return {name: value}
    try:
        return {name: datetime.fromisoformat(value)}
    except ValueError:
        raise ConfigError({"as-of": f"{value} is not a time; write it as 2026-01-31T12:00:00, with +00:00 or in UTC"}) from None


if __name__ == "__main__":
    sys.exit(main())
