"""Decides which sink may commit, with a fencing token that every Delta transaction checks.

The token is a property (``PROPERTY``) of the control table and rises with every start; Delta's
commit gives each start a different number. Delta calls an observer whenever a transaction starts,
whatever command it belongs to (OptimisticTransaction's executionObserver). The observer installed
here refuses a transaction

- if the lease is not held by the sink's own clock, at its start and again right before the commit
  is written, or if it lapsed in between;
- if the control table, checked every ``_LOOK_EVERY_S``, or the written table has a higher token.

A sink that takes over from another one that may still be running first sets its token in every
known table, before it reads any (``claim``). From then on the former sink commits nothing there.
New transactions of it are refused, and those in progress fail, because every transaction reads the
table's metadata and conflicts with a commit that changes it (MetadataChangedException). A table
that is not known at that time is claimed at its first write. So what is read after a claim stays
true, and no other module has to check.

The token is a property rather than an application id of Delta's transactions. Reading those ids
needs the table's reconstructed log, which costs as much as a small commit; the metadata is at hand.

Python has no public API for this. The called methods are public in the JVM, and Delta's version is
pinned.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from dblog_sink.delta.file_skipping import newest, scala_seq
from dblog_sink.delta.log_cleanup import has_next
from dblog_sink.delta.merge import is_conflict
from dblog_sink.errors import DefiniteError, TransientError
from dblog_sink.state.control_table import ensure

log = logging.getLogger(__name__)

PROPERTY = "dblog.fence"
_LOOK_EVERY_S = 1.0
"""Seconds between checks of the control table, much less than the pause of a sink before another
takes over.
"""
_ATTEMPTS_MAX = 20
_SETTER = "org$apache$spark$sql$delta$ThreadStorageExecutionObserver$_setter_$threadObserver_$eq"


class Held(Protocol):
    """The lease that a fence asks (``state/lease.py``)."""

    @property
    def lost(self) -> str | None:
        """Reason why the lease is not held now, None while it is."""

    @property
    def is_gone(self) -> bool:
        """True once the lease can never be held again."""

    @property
    def lapses(self) -> int:
        """Number of times that the lease lapsed and was renewed afterwards."""


class Fence:
    """The right of one run of the sink to commit. ``control`` is the control table's path."""

    def __init__(
        self,
        session: SparkSession,
        control: str,
        *,
        lease: Held,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._jvm: Any = session._jvm  # noqa: SLF001
        self._delta: Any = session._jvm.org.apache.spark.sql.delta  # type: ignore[union-attr]  # noqa: SLF001
        self._control = control
        self._lease = lease
        self._now_s = now_s
        self._turn = threading.RLock()
        self._looked_s: float | None = None
        self._lost: str | None = None
        self._claims = False
        self._before: Any = None
        self._local = threading.local()
        self.token = -1

    @property
    def lost(self) -> str | None:
        """Reason why this sink must not commit now, None while it may."""
        return self._lost or self._lease.lost

    @property
    def is_gone(self) -> bool:
        """True once this sink can never commit again."""
        return self._lost is not None or self._lease.is_gone

    @property
    def claims(self) -> bool:
        """True if a former sink may still be running, so that every table gets this sink's
        token.
        """
        return self._claims

    def take(self, *, alone: bool) -> None:
        """Take the next token.

        ``alone`` is True if no other sink can be running, so no table needs a claim.
        """
        ensure(self._session, self._control)
        self._raise_above(self._of_control())
        self._claims = not alone

    def install(self) -> None:
        """Watch every Delta transaction of this JVM from now on, in every thread."""
        from pyspark.java_gateway import ensure_callback_server_started  # noqa: PLC0415

        gateway: Any = self._session.sparkContext._gateway  # noqa: SLF001
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        # Delta's own errors must pass through the observer unchanged. As py4j errors they would not
        # make Delta retry.
        gateway.python_parameters.propagate_java_exceptions = True
        observers = self._observers()
        self._before = observers.threadObserver()
        getattr(observers, _SETTER)(self._jvm.java.lang.ThreadLocal.withInitial(_Always(_Observer(self))))

    def remove(self) -> None:
        """Stop watching. Only tests need it, whose JVM lives on."""
        if self._before is not None:
            getattr(self._observers(), _SETTER)(self._before)
            self._before = None

    def claim(self, paths: Iterable[str], *, threads: int) -> None:
        """Set the token in every existing table among ``paths``.

        A table that cannot be reached now is claimed at its first write.
        """
        with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="dblog-claim") as pool:
            list(pool.map(self._claimed, paths))

    def check(self) -> None:
        """Raise DefiniteError if this sink must never commit again.

        Raise TransientError while its lease has lapsed. For work that is not a Delta commit.
        """
        self._refuse_unheld()
        self._look()

    # -- inside a transaction, in whichever thread it is -----------------------------------------------------------------------------

    def started(self, start: Callable[[], Any]) -> Any:
        """Check, start and return a transaction that may be committed, using ``start``.

        Claim its table if necessary. Raise what ``check`` raises.
        """
        if getattr(self._local, "claiming", False):
            return start()
        # Read before the check: a later lapse is one within the transaction.
        lapses = self._lease.lapses
        self.check()
        self._local.lapses = lapses
        write = start()
        # A table that is being created.
        if write.snapshot().version() < 0:
            return write
        token = _token(write.metadata())
        if token > self.token:
            self._raise_above(token)
        elif token < self.token and self._claims:
            self._set(write.deltaLog())
            write = start()
        return write

    def before_commit(self) -> None:
        """Check the lease without I/O, right before a commit.

        A process that was suspended within the transaction finds that the lease has lapsed, whether
        it has been renewed since or not.
        """
        if getattr(self._local, "claiming", False):
            return
        self._refuse_unheld()
        if getattr(self._local, "lapses", None) != self._lease.lapses:
            msg = "the lease lapsed while this transaction ran, and another sink may have written meanwhile; the batch is repeated"
            raise TransientError(msg)

    # -- tokens -------------------------------------------------------------------------------------------------------------------------

    def _observers(self) -> Any:
        return getattr(getattr(self._delta, "TransactionExecutionObserver$"), "MODULE$")

    def _refuse_unheld(self) -> None:
        if (reason := self.lost) is not None:
            raise DefiniteError(reason) if self.is_gone else TransientError(reason)

    def _lose(self, reason: str) -> DefiniteError:
        self._lost = reason
        return DefiniteError(reason)

    def _look(self) -> None:
        """Check, every ``_LOOK_EVERY_S`` at most, that the control table has this sink's token."""
        with self._turn:
            now_s = self._now_s()
            if self._looked_s is not None and now_s - self._looked_s < _LOOK_EVERY_S:
                return
            if self._is_unchanged():
                self._looked_s = now_s
                return
            token = self._of_control()
            if token > self.token:
                raise self._lose(self._taken_over(token))
            if token < self.token:
                raise self._lose(
                    f"the control table {self._control} was removed, or replaced by an older copy, beneath the running sink; start the sink again"
                )
            self._looked_s = now_s

    def _taken_over(self, token: int) -> str:
        return (
            f"another sink has taken the state of {self._control} over (its fencing token is {token}, this one's {self.token}); this one commits nothing any "
            "more, and stops"
        )

    def _is_unchanged(self) -> bool:
        """Return True if the control table's newest version is known here and has our token.

        This takes two small requests instead of a listing.
        """
        log_of_control = self._delta.DeltaLog.forTable(self._session._jsparkSession, self._control)  # noqa: SLF001
        snapshot = log_of_control.unsafeVolatileSnapshot()
        version = int(snapshot.version())
        return version >= 0 and _token(snapshot.metadata()) == self.token and not has_next(self._session, log_of_control, version)

    def _of_control(self) -> int:
        _, snapshot = newest(self._session, self._control)
        return -1 if snapshot.version() < 0 else _token(snapshot.metadata())

    def _raise_above(self, token: int) -> None:
        """Take a token above this one in the control table.

        A table has a higher token than the control table if the latter was lost or is an older
        copy. Then the tables' tokens count.
        """
        with self._turn:
            if self.token >= 0 and token <= self.token:
                # Another thread was faster.
                return
            log_of_control = self._delta.DeltaLog.forTable(self._session._jsparkSession, self._control)  # noqa: SLF001
            for _ in range(_ATTEMPTS_MAX):
                write = self._plain(log_of_control)
                found = _token(write.metadata())
                if 0 <= self.token != found:
                    raise self._lose(self._taken_over(max(found, token)))
                wanted = max(found, token) + 1
                try:
                    self._commit(write, wanted)
                except Exception as e:
                    if not is_conflict(e):
                        raise
                    continue
                self.token, self._looked_s = wanted, self._now_s()
                return
            msg = f"the control table {self._control} is written by others all the time; stop the other sinks on this state"
            raise DefiniteError(msg)

    def _plain(self, delta_log: Any) -> Any:
        """Return a transaction of the fence itself, which is not watched."""
        self._local.claiming = True
        try:
            return delta_log.startTransaction()
        finally:
            self._local.claiming = False

    def _claimed(self, path: str) -> None:
        try:
            if DeltaTable.isDeltaTable(self._session, path):
                self._set(self._delta.DeltaLog.forTable(self._session._jsparkSession, path))  # noqa: SLF001
        except Exception as e:
            if self.lost is not None:
                raise
            log.warning("%s is claimed when it is first written to: %s", path, str(e).strip().partition("\n")[0])

    def _set(self, delta_log: Any) -> None:
        """Set the token in a table that does not have it yet."""
        for _ in range(_ATTEMPTS_MAX):
            write = self._plain(delta_log)
            token = _token(write.metadata())
            if token == self.token:
                return
            if token > self.token:
                self._raise_above(token)
            try:
                self._commit(write, self.token)
            except Exception as e:
                if not is_conflict(e):
                    raise
            else:
                return
        msg = f"{delta_log.dataPath()} is written by others all the time; let the sink be its only writer"
        raise DefiniteError(msg)

    def _commit(self, write: Any, token: int) -> None:
        known = write.metadata()
        properties = known.configuration().updated(PROPERTY, str(token))
        changed = self._delta.actions.Metadata(
            known.id(),
            known.name(),
            known.description(),
            known.format(),
            known.schemaString(),
            known.partitionColumns(),
            properties,
            known.createdTime(),
        )
        operation = getattr(self._delta, "DeltaOperations$SetTableProperties")(self._jvm.PythonUtils.toScalaMap({PROPERTY: str(token)}))
        self._local.claiming = True
        try:
            write.updateMetadata(changed, False)
            write.commit(scala_seq(self._session, []), operation)
        finally:
            self._local.claiming = False


def _token(metadata: Any) -> int:
    """Return the token in a table's metadata, 0 if there never was one."""
    found = metadata.configuration().get(PROPERTY)
    return int(found.get()) if found.isDefined() else 0


class _Observer:
    """An implementation of Delta's TransactionExecutionObserver."""

    def __init__(self, fence: Fence) -> None:
        self._fence = fence

    def startingTransaction(self, start: Any) -> Any:  # noqa: N802  the JVM's names
        return self._fence.started(start.apply)

    def preparingCommit(self, prepare: Any) -> Any:  # noqa: N802
        return prepare.apply()

    def beginDoCommit(self) -> None:  # noqa: N802
        self._fence.before_commit()

    def beginBackfill(self) -> None:  # noqa: N802
        pass

    def beginPostCommit(self) -> None:  # noqa: N802
        pass

    def transactionCommitted(self) -> None:  # noqa: N802
        pass

    def transactionAborted(self) -> None:  # noqa: N802
        pass

    def advanceToNextThreadObserver(self) -> None:  # noqa: N802
        pass

    def createChild(self) -> _Observer:  # noqa: N802
        return self

    class Java:
        """The interface, for py4j to hand this object to the JVM."""

        implements = ("org.apache.spark.sql.delta.TransactionExecutionObserver",)


class _Always:
    """A java.util.function.Supplier of one observer for all threads."""

    def __init__(self, observer: _Observer) -> None:
        self._observer = observer

    def get(self) -> _Observer:
        return self._observer

    class Java:
        """The interface, for py4j to hand this object to the JVM."""

        implements = ("java.util.function.Supplier",)
