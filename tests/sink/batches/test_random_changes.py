"""Random histories, delivered in the worst order, through the job and through a model: no difference, also after a second time (I2, I3, I8).

Every mode; applied at once or landed first; with a truncate and a new column between; killed at every named step between two commits. A failure
prints the seed and the difference. The same with a real SIGKILL: ``kills.py``. Those marked long have many more rows, land first, or are killed at
every step; the others are their short forms, of each mode, and ``make test`` has a story of ``chaos.py`` besides.
"""

from __future__ import annotations

import pytest
from dblog_sink.errors import DefiniteError
from dblog_sink.state.crash_points import STEPS
from sink.feed import MODES, Feed, Trial
from sink.harness import Record, Sink
from support.registry_server import RegistryServer

UNIVERSES = 60
BATCHES = 2
LAND_EVERYTHING = {"trigger.interval.s": "0", "merge.rows.min": "1000000"}
MERGE_ALWAYS = {"rewrite.rows.max": "0"}
OTHERS = ("versioned", "expired", "snapshot_chosen", "published", "confirmed", "ghosts_recorded", "ghosts_removed")
KILLS = {
    "mirror": {step for step in STEPS if step not in OTHERS},
    "history": {"truncated", "tombstones_written", "versioned", "merged_recorded"},
    "append": {"appended", "recorded", "merged_recorded"},
}
"""After which steps a mode is killed: all of one mode, and of the others those that are theirs. Those of snapshots: test_manifest.py;
those of repair dumps: test_ghosts.py.
"""


class Kill(DefiniteError):  # noqa: N818  the process is gone: not an error that anything may try again
    """The process ended here."""


def write(sink: Sink, trial: Trial) -> None:
    """Write all batches; now and then what has landed waits for the next, and the process is a new one."""
    for number, batch in enumerate(trial.batches):
        sink.writer(sink.frame(batch), number)
        if number == 0 or trial.dice.random() < 0.5:
            sink.drain()
        if trial.dice.random() < 0.4:
            sink.restarted()


def merge(sink: Sink) -> None:
    """Merge what has landed; a sink that was restarted last begins again for it."""
    sink.writer  # noqa: B018
    sink.drain()


def write_again(sink: Sink, trial: Trial) -> None:
    """The checkpoint is lost: everything again from the beginning, under new numbers."""
    sink.restarted()
    sink.query_id = "second"
    sink.repeat(0, [record for batch in trial.batches for record in batch])


@pytest.mark.parametrize(
    ("seed", "settings"),
    [pytest.param(2, MERGE_ALWAYS, id="merged"), pytest.param(3, LAND_EVERYTHING, id="landed")],
)
@pytest.mark.long  # short form: the kills between data and notes
def test_a_mirror_of_any_order_of_arrival_is_the_source(
    sink: Sink, registry: RegistryServer, seed: int, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if settings == MERGE_ALWAYS:  # as batches of many rows are written
        monkeypatch.setattr("dblog_sink.tables.modes.mirror.MANY_ROWS", 100)
        monkeypatch.setattr("dblog_sink.delta.session.MANY_ROWS", 100)
    trial = Trial("mirror", seed, Feed(registry), count=UNIVERSES, batches=BATCHES, truncated=True)
    sink.settings |= settings | trial.settings

    write(sink, trial)
    if settings == LAND_EVERYTHING:
        seen = {(one["universe"], one["id"]): one["v"] for one in sink.fresh(trial.feed.old, order="universe")}
        assert seen == {key: value for key, (value, _) in trial.expected.items()}, f"seed {seed}: the view"
    merge(sink)
    trial.check(sink)

    sink.restarted().lose("control")
    write_again(sink, trial)
    trial.check(sink)
    assert sink.quarantined() == []


@pytest.mark.long  # short form: test_versions_and_changes_of_any_order_of_arrival_are_right
def test_a_history_of_any_order_of_arrival_has_every_version(sink: Sink, registry: RegistryServer) -> None:
    trial = Trial("history", 4, Feed(registry), count=UNIVERSES, batches=BATCHES, truncated=True)
    sink.settings |= LAND_EVERYTHING | trial.settings

    write(sink, trial)
    merge(sink)
    trial.check(sink)

    sink.restarted().lose("control")
    write_again(sink, trial)
    trial.check(sink)


@pytest.mark.long  # short form: test_versions_and_changes_of_any_order_of_arrival_are_right
def test_append_mode_has_every_event_of_the_log_once(sink: Sink, registry: RegistryServer) -> None:
    trial = Trial("append", 6, Feed(registry, key=()), count=UNIVERSES, batches=BATCHES)
    sink.settings |= LAND_EVERYTHING | trial.settings

    write(sink, trial)
    merge(sink)
    trial.check(sink)

    write_again(sink, trial)
    trial.check(sink)


@pytest.mark.parametrize("mode", ["history", "append"])
def test_versions_and_changes_of_any_order_of_arrival_are_right(sink: Sink, registry: RegistryServer, mode: str) -> None:
    """The second part comes with all of the first again, from another checkpoint."""
    trial = Trial(
        mode, 4, Feed(registry, key=() if mode == "append" else ("universe", "id")), count=20, batches=2, truncated=mode != "append"
    )
    sink.settings |= trial.settings
    sink.repeat(0, trial.batches[0])
    if mode == "history":  # the high-water marks are all that a list of changes has against another checkpoint
        sink.restarted().lose("control")

    write_again(sink, trial)

    trial.check(sink)


BETWEEN_DATA_AND_NOTES = {"merged", "recorded"}


@pytest.mark.parametrize(
    ("mode", "steps"),
    [
        ("mirror", BETWEEN_DATA_AND_NOTES),
        *(pytest.param(mode, KILLS[mode], marks=pytest.mark.long) for mode in MODES),
    ],
    ids=["between data and notes", *MODES],
)
def test_a_kill_at_every_step_between_two_commits_changes_nothing(sink: Sink, registry: RegistryServer, mode: str, steps: set[str]) -> None:
    feed = Feed(registry)
    few = steps is BETWEEN_DATA_AND_NOTES
    batches = 2 if few else 4 if mode == "mirror" else 3
    trial = Trial(mode, 11, feed, count=20 if few else UNIVERSES, batches=batches, truncated=mode != "append" and not few, unreadable=True)
    sink.settings |= trial.settings | {"control.interval.s": "0"}
    # First into an empty table, then landed, then merged into what is there (a mirror), then rewritten; a few kills leave out the landing and
    # the rewriting. A list of changes lands where the batch is known to be new: a checkpoint's first.
    left = set(steps)
    landed = 0 if mode == "append" else None if few else 1

    for number, batch in enumerate(trial.batches):
        sink.restarted()
        sink.settings |= {"rewrite.rows.max": "50000" if number == batches - 1 and not few else "0"}
        sink.settings |= LAND_EVERYTHING if number == landed else {"trigger.interval.s": "1000", "merge.rows.min": "20000"}
        # The first batch reaches "recorded" first with the note of its checkpoint; each batch does with its high-water marks.
        left -= write_killed(sink, number, batch, left - {"recorded"} if number == 0 else left)

    trial.check(sink)
    assert len(sink.quarantined()) == 1
    assert left == set(), "steps that were not reached"
    if few:  # the positions are the guard, as in the long trials of a mirror
        sink.restarted().lose("control")
        write_again(sink, trial)
        trial.check(sink)


def write_killed(sink: Sink, number: int, batch: list[Record], steps: set[str]) -> set[str]:
    """Write one batch, killed once at each of the steps that it reaches; returns those."""
    hits: set[str] = set()

    def reached(step: str) -> None:
        if step in steps - hits:
            hits.add(step)
            raise Kill(step)

    sink.reached = reached
    while True:
        try:
            sink.repeat(number, batch)
        except Kill:
            sink.killed()
        else:
            return hits
