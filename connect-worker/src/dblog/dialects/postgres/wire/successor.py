"""Checks if a server can continue where the stored position ends: its history has the position, and
its log reaches it (core/successor.py).
"""

from __future__ import annotations

import structlog

from dblog.core.successor import Answer, Answering, Receives, verdict_on
from dblog.dialects.postgres.pgoutput.offset import PostgresProgress
from dblog.dialects.postgres.pgoutput.position import lsn_text
from dblog.dialects.postgres.wire.identity import moved_to
from dblog.dialects.postgres.wire.session import PAGE_HEADER_BYTES_MAX, Session
from dblog.dialects.postgres.wire.timelines import switch_point
from dblog.errors import LOST_REMEDY, PositionLostError, TransientError

log = structlog.get_logger(__name__)


def require_reached(session: Session, at: PostgresProgress) -> None:
    """Raise TransientError while a standby has not replayed everything that was read from it: it
    has crashed and replays again, or is another one that lags further. Raise PositionLostError for
    a primary whose log ends before the position.
    """
    end = session.log_end()
    if not _ends_before(end, at):
        return
    is_standby = session.is_standby
    if not is_standby:
        end = session.log_end()  # the server may have been promoted in between
    server = Answering(lacks=_ends_before(end, at), lacks_its_own=True, receives=Receives.REPLAYS if is_standby else Receives.NOTHING)
    match verdict_on(server).answer:
        case Answer.WAITS:
            message = (
                f"the server at {session.settings.address} is a standby that has replayed up to {lsn_text(end)}, and the connector has read up to {at}: "
                "waiting until it gets there. A standby that was restored from an old copy and cannot get there must be made again"
            )
            raise TransientError(message)
        case Answer.LOST:
            message = (
                f"the log of {session.settings.address} ends at {lsn_text(end)}, before {at}, up to which the connector has read it: the server was put back "
                f"from a copy, and what it writes now would be skipped; {LOST_REMEDY}"
            )
            raise PositionLostError(message)


def _ends_before(end: int, at: PostgresProgress) -> bool:
    return end + PAGE_HEADER_BYTES_MAX < at.at.lsn


def require_same_history(session: Session, progress: PostgresProgress, *, confirmed_lsn: int) -> None:
    """Raise PositionLostError if the server's history lacks part of what was read, and
    TransientError if it may still receive it. ``confirmed_lsn`` is the position up to which the
    connector's slot on this server has been confirmed; 0 without a slot.
    """
    address = session.settings.address
    was = progress.server or ""
    system, _, timeline_text = session.identity.partition("/")
    was_system, _, was_timeline_text = was.partition("/")
    if system != was_system:
        message = (
            f"the server at {address} is of another cluster than the one that wrote the stored offset (system {system}, not {was_system}), whose positions "
            f"mean nothing there; point the connector at the old one; {LOST_REMEDY}"
        )
        raise PositionLostError(message)
    timeline, was_timeline = int(timeline_text), int(was_timeline_text or 1)
    behind = timeline < was_timeline and session.is_standby
    switch = None if behind else switch_point(session.settings, timeline, was_timeline)
    has_all = switch is not None and _has_all(session, progress, switch, confirmed_lsn)
    server = Answering(same_history=behind or has_all, lacks=behind, receives=Receives.REPLAYS if behind else Receives.NOTHING)
    match verdict_on(server).answer:
        case Answer.GOES_ON:
            log.warning("going on at a server of another timeline", reason=moved_to(address, was, session.identity))
        case Answer.WAITS:
            message = (
                f"the server at {address} is a standby on timeline {timeline}, and the connector has read timeline {was_timeline}: waiting until it follows "
                "there, which it does once it replicates from the server that was promoted (recovery_target_timeline=latest)"
            )
            raise TransientError(message)
        case Answer.LOST if switch is None:
            message = (
                f"the server at {address} is on timeline {timeline}, which does not follow the offset's timeline {was_timeline}: it is not a successor of the "
                f"server that was read; point the connector at that one, or at its successor; {LOST_REMEDY}"
            )
            raise PositionLostError(message)
        case Answer.LOST:
            message = (
                f"the server at {address} has left timeline {was_timeline} at {lsn_text(switch or 0)}, by a promotion, and by the stored offset changes up to "
                f"{progress} were read on that timeline: nothing shows that they were read from this server, so those in between may not be in the database "
                f"any more; {LOST_REMEDY}. With slot.failover=true and synchronized_standby_slots a server never shows what a standby lacks"
            )
            raise PositionLostError(message)


def _has_all(session: Session, progress: PostgresProgress, switch: int, confirmed_lsn: int) -> bool:
    """Return True if the server has everything that was read.

    Log after the switch may have been read from this very server even though the offset still has
    the earlier timeline. That is so in two cases: a run read this server process as a standby and
    stored the offset, or the slot on this server has been confirmed beyond the switch. A slot that
    is synchronised from a primary never is.
    """
    if max(progress.at.lsn, progress.at.commit_lsn) <= switch:
        return True
    return confirmed_lsn > switch or progress.standby_started_us == session.process_started_us()
