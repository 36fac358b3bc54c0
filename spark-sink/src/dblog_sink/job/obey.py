"""Carries out commands to the job (``commands.py``) between two batches, each once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from dblog_sink.config.job_options import Settings
from dblog_sink.delta.merge import Txn
from dblog_sink.job import commands, replay
from dblog_sink.job.build import Pipeline
from dblog_sink.job.commands import Command
from dblog_sink.job.messages import one_line
from dblog_sink.job.vacuum import Vacuum
from dblog_sink.kafka import source
from dblog_sink.state import files
from dblog_sink.state.notes import DumpMerged

log = logging.getLogger(__name__)


class CommandFolder:
    """The commands of one job.

    ``lost`` returns why this sink must not commit any more, else None.
    """

    def __init__(
        self, session: SparkSession, settings: Settings, pipeline: Pipeline, vacuum: Vacuum, lost: Callable[[], str | None]
    ) -> None:
        self._session = session
        self._settings = settings
        self._pipeline = pipeline
        self._parts = pipeline.parts
        self._vacuum = vacuum
        self._lost = lost
        self._folder = files.folder(session, f"{settings.state_path}/commands")

    def waits(self) -> bool:
        """Return True if there is a command."""
        return bool(self._folder.names())

    def obey(self) -> None:
        """Carry out the commands, oldest first. A command's file is removed when it is done."""
        for name, command in commands.waiting(self._folder):
            if command is None:
                self._folder.remove(name)
                known = ", ".join(commands.VERBS)
                self._parts.progress.emit("command", file=name, failed=f"unknown command; known: {known}")
                log.error("unknown command in %s; known: %s; the file was removed", name, known)
                continue
            facts: dict[str, Any] = {"verb": command.verb, "table": command.table, "topics": []}
            try:
                topics = self._topics(command)
                facts |= {"topics": sorted(topics)} | self._carry_out(name, command, topics)
            except Exception as e:  # noqa: BLE001  a command that cannot be carried out stops nothing
                if self._lost() is not None:
                    # The command is for the sink that has taken over.
                    return
                facts["failed"] = one_line(e)
            self._folder.remove(name)
            self._parts.progress.emit("command", **facts)
            outcome = ", ".join(f"{key} {value}" for key, value in facts.items() if key not in ("verb", "table", "topics"))
            log.log(
                logging.ERROR if "failed" in facts else logging.INFO, "%s %s: %s", command.verb, command.table or "all", outcome or "done"
            )

    def _topics(self, command: Command) -> frozenset[str]:
        """Return the topics of a command. Raise DefiniteError if none has its name."""
        known = set(self._parts.book.topics())
        # A topic may have no records but those in quarantine.
        if command.verb == "replay" and command.table is not None:
            known |= self._pipeline.quarantine.topics(self._session, command.version)
        if command.table is None:
            return frozenset(known)
        topics = frozenset(topic for topic in known if source.names(self._settings, topic, command.table))
        # The name matches no topic, or topics of several sources.
        if len(topics) != 1:
            source.topic_of(self._settings, self._parts.control.state, command.table)
        return topics

    def _carry_out(self, name: str, command: Command, topics: frozenset[str]) -> dict[str, Any]:
        match command.verb:
            case "replay":
                return self._replay(name, command, None if command.table is None else topics)
            case "maintain":
                self._vacuum.ask({self._settings.table_name(topic): topic for topic in topics if self._settings.table(topic) is not None})
            case "park":
                for topic in topics:
                    self._parts.book.park(topic, command.reason or "asked for by command")
            case _:
                for topic in topics:
                    self._parts.merge_failures.forget(topic)
                    self._parts.book.unpark(topic)
        return {}

    def _replay(self, name: str, command: Command, topics: frozenset[str] | None) -> dict[str, Any]:
        quarantine, control = self._pipeline.quarantine, self._parts.control
        version = command.version
        if version is None:
            version = replay.version_of(self._session, quarantine.path)
            if version is None:
                return {"records": 0, "still_bad": 0}
            commands.begun(self._folder, name, replace(command, version=version))
        # A replay belongs to no snapshot; its tables are complete in later snapshots.
        if self._settings.snapshots:
            now_ms = round(time.time() * 1000)
            beside = topics if topics is not None else frozenset(control.state.table_ids)
            control.record([DumpMerged(topic, now_ms) for topic in beside], "recorded", at_once=True)
        outcome = replay.replay(
            self._session,
            quarantine,
            self._parts.applier,
            self._parts.book,
            command=command,
            topics=topics,
            version=version,
            txn=Txn(f"{self._settings['name']}/replay/{name}", version),
            source_logs=control.state.source_logs,
        )
        return {"records": outcome.records, "still_bad": outcome.still_bad}
