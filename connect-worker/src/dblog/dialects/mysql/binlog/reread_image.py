"""The ``row_image`` functions of a connector that reads rows again if they lack columns
(dblog.row.image.missing=reread).

The one difference: large objects that an update of the key leaves out count as missing columns.
Nobody has the row under the new key, so a placeholder would replace its value for ever. The event
is returned instead, and its rows are read again.
"""

from __future__ import annotations

from dblog.codecs.plan import TablePlan
from dblog.dialects.mysql.binlog import row_image
from dblog.dialects.mysql.binlog.row_image import ResultRows as ResultRows  # noqa: PLC0414 - the encoders ask this module
from dblog.dialects.mysql.binlog.row_image import check_table_map as check_table_map  # noqa: PLC0414
from dblog.dialects.mysql.binlog.row_image import column_layout as column_layout  # noqa: PLC0414
from dblog.dialects.mysql.binlog.row_image import end_of_rows as end_of_rows  # noqa: PLC0414
from dblog.dialects.mysql.binlog.row_image import leaves_values_out as leaves_values_out  # noqa: PLC0414
from dblog.dialects.mysql.binlog.row_image import log_reader as log_reader  # noqa: PLC0414
from dblog.dialects.mysql.binlog.row_image import result_reader as result_reader  # noqa: PLC0414
from dblog.dialects.mysql.binlog.row_image import source_block as source_block  # noqa: PLC0414
from dblog.dialects.mysql.binlog.row_image import text_table as text_table  # noqa: PLC0414


def RowImages(plan: TablePlan) -> row_image.RowImages:  # noqa: N802 - a class in ``row_image``
    """Return a reader of rows events."""
    return row_image.RowImages(plan, rereads=True)


def whole_rows(plan: TablePlan, op: str, body: bytes, *, version: int | None) -> bytes:
    """Return the event's rows completed; see ``partial_images.whole_rows``."""
    return row_image.whole_rows(plan, op, body, version=version, rereads=True)
