"""What a task does at start, for every mode and offset."""

from __future__ import annotations

import pytest
from dblog.core.dumps import dump_of, dump_to_text
from dblog.core.takeover import Unfinished
from dblog.errors import DefiniteError
from dblog.model import TableId
from dblog.readers.start import From, may_start_over, start_plan
from worker.core.test_javaarray import ARRAY, WRITTEN

UNFINISHED = dump_to_text(dump_of("d", [TableId("shop", "a")]))
PLAIN = {"file": "binlog.000001", "pos": 4}


@pytest.mark.parametrize(
    ("mode", "new_dump", "log_from", "ends"),
    [
        ("initial", True, From.NOW, False),
        ("initial_only", True, From.NOW, True),
        ("always", True, From.NOW, False),
        ("when_needed", True, From.NOW, False),
        ("no_data", False, From.NOW, False),
        ("schema_only", False, From.NOW, False),
        ("never", False, From.OLDEST, False),
        ("INITIAL", True, From.NOW, False),
    ],
)
def test_without_an_offset_the_mode_decides(mode: str, new_dump: bool, log_from: From, ends: bool) -> None:
    plan = start_plan(mode, None)

    assert (plan.new_dump, plan.log_from, plan.ends_after_dump) == (new_dump, log_from, ends)


@pytest.mark.parametrize("mode", ["initial", "initial_only", "when_needed", "no_data", "never"])
def test_a_stored_offset_is_gone_on_from(mode: str) -> None:
    plan = start_plan(mode, PLAIN)

    assert plan.log_from is From.OFFSET
    assert not plan.new_dump


def test_an_unfinished_dump_of_ours_goes_on() -> None:
    plan = start_plan("initial", {**PLAIN, "snapshot": "INITIAL", "dblog_dump": UNFINISHED})

    assert plan.log_from is From.OFFSET
    assert plan.dump is not None
    assert not plan.dump.done


@pytest.mark.parametrize("flag", ["INITIAL", True, "BLOCKING"])
def test_an_unfinished_snapshot_of_debezium_is_started_again(flag: str | bool) -> None:
    plan = start_plan("initial", {**PLAIN, "snapshot": flag})

    assert plan.new_dump
    assert plan.log_from is From.NOW


def test_always_dumps_at_every_start_and_reads_the_log_from_the_stored_offset() -> None:
    plan = start_plan("always", {**PLAIN, "dblog_dump": UNFINISHED})

    assert plan.new_dump
    assert plan.dump is None
    assert plan.log_from is From.OFFSET


def test_an_unknown_mode_is_named() -> None:
    with pytest.raises(DefiniteError, match=r"snapshot\.mode=sometimes"):
        start_plan("sometimes", None)


def test_only_when_needed_and_always_may_start_over() -> None:
    assert [m for m in ("initial", "when_needed", "never", "always") if may_start_over(m)] == ["when_needed", "always"]


@pytest.mark.parametrize("mode", ["initial", "no_data", "when_needed"])
def test_an_incremental_snapshot_that_debezium_had_not_finished_goes_on_in_every_mode(mode: str) -> None:
    running = {
        **PLAIN,
        "incremental_snapshot_collections": '[{"incremental_snapshot_collections_id":"shop.a"},{"incremental_snapshot_collections_id":"shop.b"}]',
        "incremental_snapshot_maximum_key": ARRAY + WRITTEN["int"][0],
        "incremental_snapshot_primary_key": ARRAY + WRITTEN["int"][0],
    }

    plan = start_plan(mode, running)

    assert plan.log_from is From.OFFSET
    assert plan.unfinished == (
        Unfinished(table=TableId("shop", "a"), sent_upto=(42,), ends_at=(42,)),
        Unfinished(table=TableId("shop", "b")),
    )


@pytest.mark.parametrize(
    ("collections", "maximum"),
    [
        ('[{"incremental_snapshot_collections_id":"shop.a"}]', "aced0005"),
        (
            '[{"incremental_snapshot_collections_id":"shop.a","incremental_snapshot_collections_surrogate_key":"other"}]',
            ARRAY + WRITTEN["int"][0],
        ),
        ('[{"incremental_snapshot_collections_id":"shop.a"}]', None),
    ],
)
def test_its_table_is_begun_again_where_the_keys_are_not_known(collections: str, maximum: str | None) -> None:
    running = {
        **PLAIN,
        "incremental_snapshot_collections": collections,
        "incremental_snapshot_maximum_key": maximum,
        "incremental_snapshot_primary_key": ARRAY + WRITTEN["int"][0],
    }

    assert start_plan("initial", running).unfinished == (Unfinished(table=TableId("shop", "a")),)


@pytest.mark.parametrize("collections", [None, "", "[]", "{}", "[1]", '[{"id":"a"}]', '[{"incremental_snapshot_collections_id":"a"}]', 7])
def test_a_list_of_its_tables_that_cannot_be_read_is_refused(collections: object) -> None:
    running = {**PLAIN, "incremental_snapshot_collections": collections, "incremental_snapshot_correlation_id": "x"}

    with pytest.raises(DefiniteError, match=r"has not ended \(incremental_snapshot_.*let Debezium finish or stop"):
        start_plan("initial", running)


def test_a_null_that_a_patch_leaves_of_an_incremental_snapshot_is_nothing() -> None:
    assert start_plan("initial", {**PLAIN, "incremental_snapshot_collections": None}).log_from is From.OFFSET
