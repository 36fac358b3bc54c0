"""The plan of a PostgreSQL column: a ``ColumnPlan`` that keeps the column it was made from, which its reader needs to know."""

from __future__ import annotations

from dataclasses import dataclass

from dblog.codecs.plan import ColumnPlan
from dblog.model import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class PgColumnPlan(ColumnPlan):
    """``length`` is the number of fraction digits of a timestamptz, with 6 where the type names none."""

    declared: Column


def declared_of(plan: ColumnPlan) -> Column:
    """The column that a plan of this dialect was made from."""
    assert isinstance(plan, PgColumnPlan), "plans of PostgreSQL's columns come from values.types.column_plan"
    return plan.declared
