"""Names of include lists that match no table, and those of them that match one meanwhile."""

import pytest
from dblog.config.namespaces import Namespace
from dblog.core.unmatched_tables import NO_TABLE, describe_unmatched_tables, matched_meanwhile
from dblog.model import TableId

NAMED = ((None, "left"), ("shop", "orders"), ("shop", "orders2"), ("stock", None), ("empty", None))
VISIBLE = [TableId("shop", "order"), TableId("stock", "x"), TableId("empt", "x")]


@pytest.mark.parametrize("namespace", list(Namespace))
@pytest.mark.parametrize(
    ("captured", "true_no_more"),
    [
        ([], []),
        ([TableId("shop", "other")], []),
        ([TableId("Shop", "Orders")], ["shop.orders "]),
        ([TableId("shop", "orders2")], ["shop.orders2 "]),
        ([TableId("stock", "y")], [" stock "]),
        ([TableId("empty", "y")], [" empty "]),
        ([TableId("shop", "orders"), TableId("stock", "y")], ["shop.orders ", " stock "]),
    ],
)
def test_a_sentence_is_true_no_more_once_its_very_name_matches(namespace, captured, true_no_more):
    texts = describe_unmatched_tables(NAMED, [], lambda: VISIBLE, namespace=namespace)
    assert len(texts) == len(NAMED)

    found = matched_meanwhile(texts, NAMED, captured)

    assert len(found) == len(true_no_more)
    assert all(name in f"{text} " for name, text in zip(true_no_more, found, strict=True))


def test_any_table_ends_the_sentence_that_there_is_none():
    (text,) = describe_unmatched_tables((), [], list)
    assert text == NO_TABLE

    assert matched_meanwhile([text, "wal_level"], (), []) == []
    assert matched_meanwhile([text, "wal_level"], (), [TableId("a", "b")]) == [NO_TABLE]
