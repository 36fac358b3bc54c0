"""Names of the include lists that match no table: what is probably meant, found in a moment however many tables there are."""

import time

from dblog.core.unmatched_tables import NAMED_MAX
from dblog.dialects.mysql.wire.unmatched import describe_unmatched
from dblog.model import TableId

ROWS = [(f"tenant_{number // 100:04d}", f"customer_orders_{number:05d}") for number in range(10_000)]
SEEN = [TableId("tenant_0000", "customer_orders_00000")]


class Rows:
    """A session whose account sees these tables."""

    def __init__(self, rows):
        self._rows = rows

    def query(self, _statement, *, doing):
        assert doing == "listing tables"
        return self._rows


def test_twenty_misspelt_names_among_ten_thousand_alike_are_described_in_a_second():
    named = [(f"tenant_{number:04d}", f"customer_ordres_{number:05d}") for number in range(9_000, 9_000 + NAMED_MAX)]

    started_s = time.process_time()
    sentences = describe_unmatched(Rows(ROWS), named, SEEN)

    assert time.process_time() - started_s < 2
    assert len(sentences) == NAMED_MAX
    assert all("matches tenant_90" in sentence for sentence in sentences)


def test_a_table_is_looked_for_in_the_database_that_is_named():
    named = [("Tenant_0042", "customer_ordres_04217"), ("tenant_0042", "customer_orders_4217")]

    sentences = describe_unmatched(Rows(ROWS), named, SEEN)

    assert all(sentence.endswith("(is tenant_0042.customer_orders_04217 meant?)") for sentence in sentences)


def test_a_misspelt_database_is_found_before_its_table():
    rows = [*ROWS, ("inventory", "customers"), ("inventory", "addresses")]

    sentences = describe_unmatched(Rows(rows), [("inventry", "customers"), ("inventry", None), ("nothing_like_it", "customers")], SEEN)

    assert sentences[0].endswith("(is inventory.customers meant?)")
    assert sentences[1].endswith("(is inventory meant?)")
    assert "meant" not in sentences[2]


def test_names_beyond_the_first_are_counted():
    named = [(f"absent_{number}", None) for number in range(NAMED_MAX + 7)]

    sentences = describe_unmatched(Rows([]), named, SEEN)

    assert sentences[NAMED_MAX:] == ["7 more names of the include lists match no table"]
