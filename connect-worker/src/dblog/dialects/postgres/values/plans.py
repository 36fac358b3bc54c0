"""Defines the plan of a PostgreSQL column: a ``ColumnPlan`` that keeps the column it was made from,
because the column's reader needs it.
"""

from __future__ import annotations

from dataclasses import dataclass

from dblog.codecs.plan import ColumnPlan
from dblog.model import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class PgColumnPlan(ColumnPlan):
    """The plan of one column. ``length`` is the number of fraction digits of a timestamptz, 6 if
    the type names none.
    """

    declared: Column


def declared_of(plan: ColumnPlan) -> Column:
    """Return the column from which a plan of this dialect was made."""
    assert isinstance(plan, PgColumnPlan), "plans of PostgreSQL's columns come from values.types.column_plan"
    return plan.declared
