"""The worker's own schema registry: Confluent's rules over a compacted topic in Confluent's record
format (D10).

The topic is the registry. Any Confluent-compatible registry on the same topic continues with the
same ids, and vice versa.

There is one writer at a time: a lock within the process, and Kafka's fence between workers, also of
several groups (``kafka/fenced.py``). A writer reads to the end, decides, writes, and reads back; a
writer that was overtaken decides again. So ids rise, a schema gets one id however many clients
register it at once, and no late write takes an id.

A program that ignores the fence may still claim an id that is taken. The first record in the topic
with an id owns it. A version with that id and another schema is treated as missing, and its next
registration repairs the topic.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

import structlog

from dblog.codecs.avro_text import canonical_text
from dblog.codecs.compatibility import TOO_LARGE, Level, SchemaVersion, check_level
from dblog.errors import DblogError, DefiniteError, TransientError
from dblog.kafka.fenced import Overtaken
from dblog.kafka.log import CompactedLog, LogRecord
from dblog.kafka.writer import Write

_log = structlog.get_logger("dblog.kafka.registry")

WRITE_LIMIT_S = 30.0
_OPEN_LIMIT_S = 30.0
_OVERTAKEN_PAUSE_MS = 200
_STOP_ASKED_S = 0.1
_REFERENCES_MAX = 200
_RECORD_BYTES_MAX = 999_000
"""Below a producer's limit of 1 000 000 (``message.max.bytes``) with Kafka's overhead."""
_TEXTS_KEPT = 1000
_REFERENCE_DEPTH_MAX = 50
_REFERENCED_CHARS_MAX = 5_000_000
_COMPARED_CHARS_MAX = 10_000_000
"""Characters of the versions that a new one is compared with, and of those they refer to. Reading
them takes a few tenths of a second.
"""
_TOGETHER_MAX = 100
"""Registrations of one transaction."""
_TURNS_MAX = 10
"""Tries for a registration whose id or version another program keeps taking."""
_LATEST = -1
"""Version number that clients write for the latest version of a reference."""
_ID_MAX = (1 << 31) - 1
"""The largest id that fits the four bytes before a record's value, as Confluent reads them."""
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")


class RegistryError(DblogError):
    """A refused request, with Confluent's error code."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(message)

    @property
    def status(self) -> int:
        """The HTTP status: the first three digits of the code."""
        return int(str(self.code)[:3])


@dataclass(frozen=True, slots=True)
class Reference:
    """A name that a schema uses and a version of another subject defines."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """One version of a subject."""

    subject: str
    version: int
    id: int
    schema: str
    type: str = "AVRO"
    references: tuple[Reference, ...] = ()
    deleted: bool = False


class RegistryState:
    """The fold of the topic. Not thread-safe: the store's lock protects it."""

    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, Registered]] = {}
        self.by_id: dict[int, Registered] = {}
        self.levels: dict[str | None, Level] = {}
        self.modes: dict[str | None, str] = {}
        self.id_max = 0

    def apply(self, key: Mapping[str, Any], value: Mapping[str, Any] | None) -> bool:
        """Apply one record. Return False for one that is not understood."""
        subject = key.get("subject")
        match key.get("keytype"):
            case "SCHEMA" if isinstance(subject, str) and _is_number(key.get("version")):
                return self._apply_schema(subject, key["version"], value)
            case "CONFIG":
                level = None if value is None else value.get("compatibilityLevel")
                if level is None:
                    self.levels.pop(subject, None)
                elif level in Level.__members__:
                    self.levels[subject] = Level(level)
            case "MODE":
                if value is None or not isinstance(value.get("mode"), str):
                    self.modes.pop(subject, None)
                else:
                    self.modes[subject] = value["mode"]
            case "DELETE_SUBJECT" if isinstance(subject, str) and value is not None:
                for version, entry in self.subjects.get(subject, {}).items():
                    if version <= int(value.get("version", 0)):
                        self.subjects[subject][version] = replace(entry, deleted=True)
            case "CLEAR_SUBJECT" if isinstance(subject, str):
                self.levels.pop(subject, None)
                self.modes.pop(subject, None)
            case "NOOP":
                if value is not None and _is_number(value.get("idMax")):
                    self.id_max = max(self.id_max, value["idMax"])
            case _:
                return False
        return True

    def _apply_schema(self, subject: str, version: int, value: Mapping[str, Any] | None) -> bool:
        if value is None:
            self.subjects.get(subject, {}).pop(version, None)
            if not self.subjects.get(subject):
                self.subjects.pop(subject, None)
            return True
        if not _is_number(value.get("id")) or not isinstance(value.get("schema"), str):
            return False
        type_name = value.get("schemaType") or "AVRO"
        references = tuple(Reference(r["name"], r["subject"], r["version"]) for r in value.get("references") or ())
        if not isinstance(type_name, str) or not all(
            isinstance(r.name, str) and isinstance(r.subject, str) and isinstance(r.version, int) for r in references
        ):
            return False
        entry = Registered(
            subject=subject,
            version=version,
            id=value["id"],
            schema=value["schema"],
            # An earlier version of this registry stored "avro" in the client's spelling.
            type="AVRO" if type_name.upper() == "AVRO" else type_name,
            references=references,
            deleted=bool(value.get("deleted", False)),
        )
        self.subjects.setdefault(subject, {})[version] = entry
        # An id outlives its subject: data written with it can still be read.
        self.by_id.setdefault(entry.id, entry)
        self.id_max = max(self.id_max, entry.id)
        return True

    def versions(self, subject: str, *, deleted: bool = False) -> list[Registered]:
        """Return the versions of a subject, oldest first.

        With ``deleted`` also the soft-deleted ones.
        """
        return [entry for _, entry in sorted(self.subjects.get(subject, {}).items()) if deleted or not entry.deleted]

    def level(self, subject: str) -> Level:
        """Return the compatibility level in force for a subject."""
        return self.levels.get(subject) or self.levels.get(None) or Level.BACKWARD

    def mode(self, subject: str | None) -> str:
        """Return the mode in force for a subject."""
        return self.modes.get(subject) or self.modes.get(None) or "READWRITE"


_Answer = TypeVar("_Answer")

MakeLog = Callable[[str, Callable[[LogRecord], None]], CompactedLog]


class RegistryStore:
    """The registry's operations. Reads answer from memory; writes take turns."""

    def __init__(self, topic: str, make_log: MakeLog) -> None:
        self._lock = threading.Lock()
        self.writing = threading.Lock()
        self._waiting: deque[_Wanted] = deque()
        """Registrations that wait for their turn to be written. The thread that holds the turn
        takes them out.
        """
        self._state = RegistryState()
        self._ids: dict[tuple[str, tuple[Reference, ...]], int] = {}
        self._ids_noted = 0
        self._texts = _CanonicalTexts()
        self.requests: Counter[str] = Counter()
        """Counts of the REST interface's answers: ok, client_error, server_error."""
        self.skipped = 0
        """Number of records that were not understood since this process started."""
        self.log = make_log(topic, self._take)
        self._writer = self.log.fenced_writer()
        self._behind = True
        """True if unread records may exist. Guarded by ``writing``."""
        self._stopping = threading.Event()
        self.ready = threading.Event()

    def start(self) -> None:
        """Read the topic, unless that is done."""
        if not self.log.is_open:
            self.log.start(limit_s=_OPEN_LIMIT_S)
            self.ready.set()

    def stop(self) -> None:
        """Close the topic."""
        self._stopping.set()
        self.log.stop()
        self._writer.close()

    def _take(self, record: LogRecord) -> None:
        try:
            key = json.loads(record.key or b"")
            value = None if record.value is None else json.loads(record.value)
            with self._lock:
                known = isinstance(key, dict) and (value is None or isinstance(value, dict)) and self._state.apply(key, value)
        except Exception:  # noqa: BLE001  no record may end the registry or its next start
            known = False
        if not known:
            self.skipped += 1
            _log.error("registry record skipped: it is not understood", topic=self.log.topic, offset=record.offset)

    # Reading.

    def subjects(self, *, deleted: bool = False, prefix: str = "") -> list[str]:
        """Return the subjects that have a version, sorted."""
        with self._lock:
            return sorted(s for s in self._state.subjects if s.startswith(prefix) and self._state.versions(s, deleted=deleted))

    def versions(self, subject: str, *, deleted: bool = False) -> list[Registered]:
        """Return the versions of a subject. Raise RegistryError 40401 if there are none."""
        with self._lock:
            found = self._state.versions(subject, deleted=deleted)
        if not found:
            raise RegistryError(40401, f"Subject '{subject}' not found.")
        return found

    def version(self, subject: str, version: str, *, deleted: bool = False) -> Registered:
        """Return one version, by its number or ``latest`` (also written -1)."""
        number = _version_number(version)
        found = self.versions(subject, deleted=deleted)
        if number is None:
            return found[-1]
        entry = next((entry for entry in found if entry.version == number), None)
        if entry is None:
            raise RegistryError(40402, f"Version {number} not found.")
        return entry

    def _resolved(self, references: Sequence[Reference]) -> tuple[Reference, ...]:
        """Replace references to the latest version by its number, which keeps its meaning."""
        return tuple(replace(r, version=self._referenced_version(r).version) if r.version == _LATEST else r for r in references)

    def _referenced_version(self, reference: Reference) -> Registered:
        try:
            return self.version(reference.subject, str(reference.version), deleted=reference.version != _LATEST)
        except RegistryError as e:
            raise RegistryError(42201, f"Schema reference {reference.name} cannot be found: {e.message}") from e

    def schema(self, schema_id: int) -> Registered:
        """Return the schema of an id."""
        with self._lock:
            entry = self._state.by_id.get(schema_id)
        if entry is None:
            raise RegistryError(40403, f"Schema {schema_id} not found")
        return entry

    def uses(self, schema_id: int, *, deleted: bool = False) -> list[Registered]:
        """Return every subject version with that id."""
        self.schema(schema_id)
        with self._lock:
            return [e for s in sorted(self._state.subjects) for e in self._state.versions(s, deleted=deleted) if e.id == schema_id]

    def all(self, *, deleted: bool = False, prefix: str = "", latest_only: bool = False) -> list[Registered]:
        """Return every version of every subject."""
        with self._lock:
            per_subject = [self._state.versions(s, deleted=deleted) for s in sorted(self._state.subjects) if s.startswith(prefix)]
        return [entry for entries in per_subject for entry in (entries[-1:] if latest_only else entries)]

    def level(self, subject: str | None, *, or_global: bool = False) -> Level:
        """Return the level set for a subject, or the global one for None.

        Raise RegistryError 40408 if the subject has none, unless ``or_global``.
        """
        with self._lock:
            if subject is None:
                return self._state.levels.get(None) or Level.BACKWARD
            own = self._state.levels.get(subject)
            if own is None and or_global:
                return self._state.level(subject)
        if own is None:
            raise RegistryError(40408, f"Subject '{subject}' does not have subject-level compatibility configured")
        return own

    def mode(self, subject: str | None, *, or_global: bool = False) -> str:
        """Return the mode set for a subject, or the global one for None.

        Raise RegistryError 40409 if the subject has none, unless ``or_global``.
        """
        with self._lock:
            if subject is None or or_global:
                return self._state.mode(subject)
            own = self._state.modes.get(subject)
        if own is None:
            raise RegistryError(40409, f"Subject '{subject}' does not have subject-level mode configured")
        return own

    def lookup(self, subject: str, text: str, references: Sequence[Reference], type_name: str, *, deleted: bool = False) -> Registered:
        """Return the subject's version with this schema. Raise RegistryError if there is none."""
        held = self._held(subject, deleted=True)
        found = held.entries
        if not found:
            raise RegistryError(40401, f"Subject '{subject}' not found.")
        references = self._resolved(references)
        canonical = self._canonical(text, references, type_name)
        for entry in reversed(found):
            if (deleted or not entry.deleted) and self._is(entry, canonical, references) and self._owns(entry, held.owners[entry.id]):
                return entry
        if not any(deleted or not entry.deleted for entry in found):
            raise RegistryError(40401, f"Subject '{subject}' not found.")
        raise RegistryError(40403, "Schema not found")

    def problems(self, subject: str, text: str, references: Sequence[Reference], type_name: str, version: str | None) -> list[str]:
        """Return the reasons why a schema is incompatible, at the subject's level.

        Compares it with one version, or for None with those that the level requires.
        """
        references = self._resolved(references)
        canonical = self._canonical(text, references, type_name)
        if version is None:
            with self._lock:
                earlier = self._state.versions(subject)
        else:
            earlier = [self.version(subject, version)]
        with self._lock:
            level = self._state.level(subject)
        return self._problems(canonical, references, earlier, level)

    # Writing.

    def register(self, subject: str, text: str, references: Sequence[Reference] = (), type_name: str = "AVRO") -> Registered:
        """Register a schema under a subject.

        A schema that is already registered keeps its id and version.
        """
        outcome = self.register_all([Given(subject, text, references, type_name)])[0]
        if isinstance(outcome, RegistryError):
            raise outcome
        return outcome

    def register_all(self, given: Sequence[Given]) -> list[Registered | RegistryError]:
        """Register several schemas, those of one subject in their order.

        A refused schema does not affect others. An error of the topic is raised for all.
        """
        outcomes: dict[int, Registered | RegistryError] = {}
        waiting: dict[int, _Wanted] = {}
        for number, each in enumerate(given):
            try:
                wanted = self._wanted(each)
            except RegistryError as e:
                outcomes[number] = e
                continue
            known = self._known(self._held(wanted.subject), wanted.canonical, wanted.references)
            if known is not None:
                outcomes[number] = known
            else:
                waiting[number] = wanted
        for _ in range(_TURNS_MAX):
            if not waiting:
                return [outcome for _, outcome in sorted(outcomes.items())]
            self._register_in_turn(list(waiting.values()))
            for number, wanted in list(waiting.items()):
                outcome = wanted.outcome
                if isinstance(outcome, RegistryError):
                    outcomes[number] = outcome
                elif not isinstance(outcome, Registered):
                    raise outcome or AssertionError("anybody who has the turn leaves an outcome")
                # Checks what was read back: a program without the fence may have claimed the id or
                # the version.
                elif self._known(self._held(wanted.subject), wanted.canonical, wanted.references) == outcome:
                    outcomes[number] = outcome
                else:
                    waiting[number] = replace(wanted, outcome=None)
                    continue
                del waiting[number]
        if not waiting:
            return [outcome for _, outcome in sorted(outcomes.items())]
        raise TransientError(
            f"a record of subject {next(iter(waiting.values())).subject} is not in the topic as it was written, {_TURNS_MAX} times in a row; "
            f"another program writes {self.log.topic} beside this worker"
        )

    def _wanted(self, given: Given) -> _Wanted:
        references = self._resolved(given.references)
        return _Wanted(given.subject, self._canonical(given.text, references, given.type_name), references, given.type_name)

    def _register_in_turn(self, wanted: Sequence[_Wanted]) -> None:
        """Register these schemas, together with those that other threads wait for.

        A transaction takes as long for a hundred records as for one.
        """
        self._waiting.extend(wanted)
        with self._turn():
            while (first := next((each for each in wanted if each.outcome is None), None)) is not None:
                some = self._next_registrations(first)
                try:
                    for other, outcome in zip(some, self._written(lambda: self._decide_all(some)), strict=True):  # noqa: B023  called at once
                        other.outcome = outcome
                except DblogError as e:
                    for other in (*some, *wanted):  # the rest of ours does not wait for a second time limit
                        other.outcome = other.outcome or e

    def _next_registrations(self, first: _Wanted) -> list[_Wanted]:
        """Return ``first`` and other waiting registrations, at most one for each subject.

        A decision about a subject depends on the subject's versions.
        """
        some = {first.subject: first}
        for _ in range(len(self._waiting)):
            other = self._waiting.popleft()
            if other.outcome is not None or other is first:
                continue
            if len(some) >= _TOGETHER_MAX or other.subject in some:
                self._waiting.append(other)
            else:
                some[other.subject] = other
        return list(some.values())

    def _decide_all(self, some: Sequence[_Wanted]) -> tuple[Sequence[Write], list[Registered | RegistryError]]:
        """Return the records to write for registrations of different subjects, and their outcomes.

        A refused registration does not affect others.
        """
        writes: list[Write] = []
        outcomes: list[Registered | RegistryError] = []
        given: dict[tuple[str, tuple[Reference, ...]], int] = {}
        for wanted in some:
            try:
                needed, entry = self._decide(wanted, given)
            except RegistryError as e:
                outcomes.append(e)
            else:
                writes += needed
                outcomes.append(entry)
        return writes, outcomes

    def _decide(self, wanted: _Wanted, given: dict[tuple[str, tuple[Reference, ...]], int]) -> tuple[Sequence[Write], Registered]:
        """Return the records to write for one registration, and its outcome.

        ``given`` maps schemas to the new ids of earlier registrations, which are not in the topic
        yet.
        """
        subject, canonical, references = wanted.subject, wanted.canonical, wanted.references
        held = self._held(subject)
        known = self._known(held, canonical, references)
        if known is not None:
            return (), known
        if held.mode.startswith("READONLY"):
            raise _read_only(subject)
        live, level, version = held.entries, held.level, held.next_version
        mistaken = self._mistaken(held, canonical, references)
        owner = None if mistaken is None else held.owners[mistaken.id]
        restored = []
        if mistaken is not None and owner is not None:
            live = [entry for entry in live if entry is not mistaken]
            if (owner.subject, owner.version) == (subject, mistaken.version):
                # Compaction keeps only the newest record of a key, so the owner's is written again.
                # Without it nobody would own the id.
                restored = [schema_write(owner)]
                live.append(owner)
            else:
                version = mistaken.version
        text = canonical, references
        schema_id = self._id_of(*text) or given.get(text) or max([held.next_id, *(i + 1 for i in given.values())])
        _require_numbers_left(subject, version, schema_id)
        problems = self._problems(canonical, references, live, level)
        if problems:
            details = "; ".join(problems)
            raise RegistryError(
                409,
                f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: [{details}, '
                f"{{compatibility: '{level}'}}]",
            )
        entry = Registered(subject=subject, version=version, id=schema_id, schema=canonical, type=wanted.type_name, references=references)
        write = schema_write(entry)
        if len(write.key) + len(write.value or b"") > _RECORD_BYTES_MAX:
            raise RegistryError(42201, f"The schema makes a record of more than {_RECORD_BYTES_MAX} bytes, and Kafka takes no more")
        if schema_id >= held.next_id:
            given[text] = schema_id
        return [*restored, write], entry

    def delete_subject(self, subject: str, *, permanent: bool) -> list[int]:
        """Soft-delete all versions of a subject.

        With ``permanent`` remove those already soft-deleted.
        """

        def decide() -> tuple[Sequence[Write], list[int]]:
            with self._lock:
                self._require_writable(subject)
                everything = self._state.versions(subject, deleted=True)
                live = self._state.versions(subject)
            if not everything:
                raise RegistryError(40401, f"Subject '{subject}' not found.")
            if permanent:
                if live:
                    raise RegistryError(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")
                gone = [Write(schema_key(e.subject, e.version), None) for e in everything]
                return [self._ids_write(), *gone, _clear_write(subject)], [entry.version for entry in everything]
            if not live:
                raise RegistryError(40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently")
            self._require_unreferenced(live)
            return [_delete_write(subject, live[-1].version)], [entry.version for entry in live]

        return self._alone(decide)

    def delete_version(self, subject: str, version: str, *, permanent: bool) -> int:
        """Soft-delete one version. With ``permanent`` remove one that is already soft-deleted."""

        def decide() -> tuple[Sequence[Write], int]:
            with self._lock:
                self._require_writable(subject)
            entry = self.version(subject, version, deleted=_version_number(version) is not None)
            if permanent:
                if not entry.deleted:
                    raise RegistryError(
                        40407, f"Subject '{subject}' Version {entry.version} was not deleted first before being permanently deleted"
                    )
                return [self._ids_write(), Write(schema_key(subject, entry.version), None)], entry.version
            if entry.deleted:
                raise RegistryError(
                    40406, f"Subject '{subject}' Version {entry.version} was soft deleted.Set permanent=true to delete permanently"
                )
            self._require_unreferenced([entry])
            return [schema_write(replace(entry, deleted=True))], entry.version

        return self._alone(decide)

    def set_level(self, subject: str | None, level: str) -> Level:
        """Set the level of a subject, or the global level for None."""
        if level.upper() not in Level.__members__:
            raise RegistryError(
                42203,
                "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, forward_transitive, "
                "and full_transitive",
            )
        self._alone(lambda: ([Write(_key("CONFIG", subject, 0), _json({"compatibilityLevel": level.upper()}))], None))
        return Level(level.upper())

    def clear_level(self, subject: str | None) -> Level:
        """Remove the level of a subject, or the global level for None. Return the removed level."""
        was = self.level(subject)
        self._alone(lambda: ([Write(_key("CONFIG", subject, 0), None)], None))
        return was

    def set_mode(self, subject: str | None, mode: str) -> str:
        """Set the mode of a subject, or the global mode for None."""
        if mode.upper() not in MODES:
            raise RegistryError(42204, f"Invalid mode. Valid values are {', '.join(MODES)}")
        self._alone(lambda: ([Write(_key("MODE", subject, 0), _json({"mode": mode.upper()}))], None))
        return mode.upper()

    def clear_mode(self, subject: str) -> str:
        """Remove the mode of a subject. Return the removed mode."""
        was = self.mode(subject)
        self._alone(lambda: ([Write(_key("MODE", subject, 0), None)], None))
        return was

    def _alone(self, decide: Callable[[], tuple[Sequence[Write], _Answer]]) -> _Answer:
        """Wait for the turn, decide on all records so far, write, and wait for the read-back."""
        with self._turn():
            return self._written(decide)

    def _written(self, decide: Callable[[], tuple[Sequence[Write], _Answer]]) -> _Answer:
        """Decide, write and wait for the read-back. The caller holds the turn (``_turn``)."""
        # The limit starts here: it does not include the turns of this process's other threads.
        deadline = time.monotonic() + WRITE_LIMIT_S
        while True:
            try:
                writes, answer = self._decided(decide)
                if writes:
                    self._behind = True
                    self.log.read_back(self._writer.write(writes, limit_s=WRITE_LIMIT_S), limit_s=WRITE_LIMIT_S)
                    self._behind = False
            except Overtaken as e:
                # Two writers with equal pauses would fence each other forever.
                pause_s = secrets.randbelow(_OVERTAKEN_PAUSE_MS) / 1000
                if time.monotonic() >= deadline or self._stopping.wait(pause_s):
                    raise TransientError(f"{e}; this worker found no turn in {WRITE_LIMIT_S:.0f} s") from e
            except DefiniteError as e:
                raise RegistryError(50001, f"Error in the backend data store: {e}") from e
            else:
                return answer

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the turn to write.

        Wait for other writers without a limit, but not after ``stop``.
        """
        while not self.writing.acquire(timeout=_STOP_ASKED_S):
            self._require_open()
        try:
            self._require_open()
            yield
        finally:
            self.writing.release()

    def _require_open(self) -> None:
        if self._stopping.is_set():
            raise TransientError("this worker stops")

    def _decided(self, decide: Callable[[], tuple[Sequence[Write], _Answer]]) -> tuple[Sequence[Write], _Answer]:
        """Return a decision that is based on everything that was ever written.

        Reading to the end takes a tenth of a second, because a fetch waits that long for records
        that do not come. A writer that still holds the topic has read all of it; if not, the fence
        refuses its write and it decides again. So only a decision that writes nothing has to read
        first.
        """
        self._behind |= self._writer.take(limit_s=WRITE_LIMIT_S)
        if not self._behind:
            with contextlib.suppress(RegistryError):
                writes, answer = decide()
                if writes:
                    return writes, answer
        self.log.read_to_end(limit_s=WRITE_LIMIT_S)
        self._behind = False
        return decide()

    def _ids_write(self) -> Write:
        """Return a record with the greatest id so far.

        Compaction forgets a deleted schema, but its id must not be given again. Other registries
        ignore the value of a NOOP record.
        """
        with self._lock:
            return Write(_json({"keytype": "NOOP", "magic": 0}), _json({"idMax": self._state.id_max}))

    def _held(self, subject: str, *, deleted: bool = False) -> _Held:
        with self._lock:
            entries = self._state.versions(subject, deleted=deleted)
            return _Held(
                entries=entries,
                owners={entry.id: self._state.by_id[entry.id] for entry in entries},
                level=self._state.level(subject),
                mode=self._state.mode(subject),
                next_id=self._state.id_max + 1,
                next_version=max(self._state.subjects.get(subject, {}), default=0) + 1,
            )

    def _known(self, held: _Held, canonical: str, references: Sequence[Reference]) -> Registered | None:
        for entry in reversed(held.entries):
            if self._is(entry, canonical, references) and self._owns(entry, held.owners[entry.id]):
                return entry
        return None

    def _mistaken(self, held: _Held, canonical: str, references: Sequence[Reference]) -> Registered | None:
        """Return the version that has this schema under an id that another schema had first."""
        for entry in reversed(held.entries):
            if self._is(entry, canonical, references) and not self._owns(entry, held.owners[entry.id]):
                return entry
        return None

    def _owns(self, entry: Registered, owner: Registered) -> bool:
        """Return True if the version's id belongs to its schema.

        The first record with an id owns it.
        """
        return owner.references == entry.references and (
            owner.schema == entry.schema or self._same(owner, self._texts.canonical(entry.schema))
        )

    def _is(self, entry: Registered, canonical: str, references: Sequence[Reference]) -> bool:
        return entry.references == tuple(references) and self._same(entry, canonical)

    def _id_of(self, canonical: str, references: tuple[Reference, ...]) -> int | None:
        """Return the id that this schema has under any subject, or None.

        Reads each entry's text once, at the first registration after it arrived. The caller holds
        the turn.
        """
        with self._lock:
            fresh = list(islice(self._state.by_id.values(), self._ids_noted, None))
        for entry in fresh:
            texts = (entry.schema, self._texts.canonical(entry.schema)) if entry.type == "AVRO" else (entry.schema,)
            for text in texts:
                self._ids.setdefault((text, entry.references), entry.id)
        self._ids_noted += len(fresh)
        return self._ids.get((canonical, references))

    def _same(self, entry: Registered, canonical: str) -> bool:
        return entry.schema == canonical or (entry.type == "AVRO" and self._texts.canonical(entry.schema) == canonical)

    def _require_writable(self, subject: str) -> None:
        mode = self._state.mode(subject)
        if mode.startswith("READONLY"):
            raise _read_only(subject)

    def _require_unreferenced(self, entries: Sequence[Registered]) -> None:
        gone = {(entry.subject, entry.version) for entry in entries}
        # Other registries, and an earlier version of this one, store -1 as given: it may mean any
        # version.
        gone_or_latest = gone | {(entry.subject, _LATEST) for entry in entries}
        users = [
            e
            for e in self.all()
            if (e.subject, e.version) not in gone and any((r.subject, r.version) in gone_or_latest for r in e.references)
        ]
        if users:
            raise RegistryError(
                42206, f"One or more references exist to the schema {{subject={users[0].subject},version={users[0].version}}}."
            )

    def _canonical(self, text: str, references: Sequence[Reference], type_name: str) -> str:
        if type_name != "AVRO":
            raise RegistryError(42201, f"Invalid schema type {type_name}: this registry keeps AVRO schemas")
        try:
            canonical = canonical_text(text, names=self._names(references))
        except DefiniteError as e:
            raise RegistryError(42201, f"Input schema is an invalid Avro schema: {e}") from e
        self._texts.note(canonical)
        return canonical

    def _problems(self, canonical: str, references: Sequence[Reference], earlier: Sequence[Registered], level: Level) -> list[str]:
        """Return the reasons why a schema is incompatible with the versions that ``level``
        requires.

        Each version is read with its own references, because one name may mean another type by now.
        """
        compared = [(entry.schema, self._referenced(entry.references)) for entry in level.compared(earlier)]
        if sum(len(text) + _chars(referenced) for text, referenced in compared) > _COMPARED_CHARS_MAX:
            return [TOO_LARGE]
        versions = [SchemaVersion(text, _definitions(referenced)) for text, referenced in compared]
        return check_level(SchemaVersion(canonical, self._names(references)), versions, level)

    def _names(self, references: Sequence[Reference]) -> dict[str, Any]:
        """Return the definitions that the references lead to, by name."""
        return _definitions(self._referenced(references))

    def _referenced(self, references: Sequence[Reference]) -> dict[str, Registered]:
        """Return the versions that the references lead to, by name.

        Each version is visited once: a version that two others refer to would double the work at
        every level.
        """
        found: dict[str, Registered] = {}
        visited: set[tuple[str, int]] = set()

        def visit(those: Sequence[Reference], depth: int) -> None:
            for reference in those:
                entry = self._referenced_version(reference)
                version_key = (entry.subject, entry.version)
                if version_key not in visited:
                    visited.add(version_key)
                    if depth > _REFERENCE_DEPTH_MAX or len(visited) > _REFERENCES_MAX:
                        raise RegistryError(
                            42201,
                            f"A schema may refer to {_REFERENCES_MAX} others, over {_REFERENCE_DEPTH_MAX} steps; put their definitions into one",
                        )
                    visit(entry.references, depth + 1)
                found[reference.name] = entry

        visit(references, 1)
        if _chars(found) > _REFERENCED_CHARS_MAX:
            raise RegistryError(42201, f"The schemas that a schema refers to may have {_REFERENCED_CHARS_MAX} characters together")
        return found


def _chars(referenced: Mapping[str, Registered]) -> int:
    return sum(len(entry.schema) for entry in referenced.values())


def _definitions(referenced: Mapping[str, Registered]) -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    for name, entry in referenced.items():
        try:
            definitions[name] = json.loads(entry.schema)
        except (ValueError, RecursionError) as e:
            raise RegistryError(42201, f"Schema reference {name} leads to a schema that is not an Avro schema") from e
    return definitions


def _require_numbers_left(subject: str, version: int, schema_id: int) -> None:
    """Raise RegistryError if the id or the version exceeds Confluent's format.

    No registry could read a record beyond it, this one included.
    """
    if schema_id > _ID_MAX:
        raise RegistryError(
            50001,
            f"Error in the backend data store: the topic has a record with id {_ID_MAX}, the last one there is, so no new schema can get an id; "
            "let dblog.registry.topic name a new topic, and register the schemas there",
        )
    if version > _ID_MAX:
        raise RegistryError(
            50001,
            f"Error in the backend data store: subject {subject} has version {_ID_MAX}, the last one there is; delete that version permanently",
        )


@dataclass(frozen=True, slots=True)
class _Held:
    """The facts for a decision about a subject, copied at one moment.

    Comparing texts takes long and happens without the lock, so that readers need not wait.
    """

    entries: list[Registered]
    owners: dict[int, Registered]
    """The first entry with each id."""
    level: Level
    mode: str
    next_id: int
    next_version: int


@dataclass(frozen=True, slots=True)
class Given:
    """A schema to register, as its client wrote it."""

    subject: str
    text: str
    references: Sequence[Reference] = ()
    type_name: str = "AVRO"


@dataclass(slots=True, eq=False)
class _Wanted:
    """A registration and its outcome. The outcome is None until it is decided."""

    subject: str
    canonical: str
    references: tuple[Reference, ...]
    type_name: str
    outcome: Registered | DblogError | None = None


def _read_only(subject: str) -> RegistryError:
    return RegistryError(42205, f"Subject {subject} is in read-only mode")


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _ID_MAX


def schema_key(subject: str, version: int) -> bytes:
    """Return the key of one version's record."""
    return _json({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1})


def schema_write(entry: Registered) -> Write:
    """Return the record of one version."""
    value: dict[str, Any] = {"subject": entry.subject, "version": entry.version, "id": entry.id}
    if entry.type != "AVRO":
        value["schemaType"] = entry.type
    if entry.references:
        value["references"] = [{"name": r.name, "subject": r.subject, "version": r.version} for r in entry.references]
    value |= {"schema": entry.schema, "deleted": entry.deleted}
    return Write(schema_key(entry.subject, entry.version), _json(value))


def _delete_write(subject: str, version: int) -> Write:
    return Write(_key("DELETE_SUBJECT", subject, 0), _json({"subject": subject, "version": version}))


def _clear_write(subject: str) -> Write:
    return Write(_key("CLEAR_SUBJECT", subject, 0), _json({"subject": subject}))


def _key(keytype: str, subject: str | None, magic: int) -> bytes:
    return _json({"keytype": keytype, "subject": subject, "magic": magic})


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _version_number(version: str) -> int | None:
    """Return the number, or None for the latest version. Raise RegistryError for another text."""
    if version in ("latest", "-1"):
        return None
    if version.isascii() and version.isdigit() and len(version) <= 10 and 1 <= int(version) < 2**31:  # noqa: PLR2004  int() has a limit of its own
        return int(version)
    raise RegistryError(
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are between [1, 2^31-1] and the string \"latest\"",
    )


class _CanonicalTexts:
    """A cache of canonical texts by schema text, because each registration is compared with every
    version of its subject. Safe for several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, str] = OrderedDict()

    def canonical(self, text: str) -> str:
        """Return the canonical form of a schema text, or the text itself if it is not a schema.

        A text that is already canonical is stored as one object, not two.
        """
        with self._lock:
            kept = self._kept.get(text)
            if kept is not None:
                self._kept.move_to_end(text)
                return kept
        try:
            canonical = canonical_text(text)
        except DefiniteError:
            canonical = text
        self._keep(text, text if canonical == text else canonical)
        return canonical

    def note(self, canonical: str) -> None:
        """Note that this text is canonical.

        It was just computed for a client and comes back from the topic, so it need not be parsed
        again.
        """
        self._keep(canonical, canonical)

    def _keep(self, text: str, canonical: str) -> None:
        with self._lock:
            self._kept[text] = canonical
            self._kept.move_to_end(text)
            while len(self._kept) > _TEXTS_KEPT:
                self._kept.popitem(last=False)
