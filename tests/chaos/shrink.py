"""Makes a failing plan smaller: the same seed with parts masked, as long as it fails in the same check. Bounded, because each try is a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from chaos.plan import Plan

Try = Callable[[frozenset[str]], str]
"""Runs the plan under a mask; what failed first, or an empty text."""


def parts(plan: Plan) -> Iterator[frozenset[str]]:
    """What may be taken out, the greatest first."""
    kinds = {fault.kind for fault in plan.faults}
    if kinds:
        yield frozenset({"faults"})
    ddl = sorted({step.kind for step in plan.steps if step.session == 0})
    if ddl:
        yield frozenset({"ddl"})
    yield frozenset({"log", "modes", "converter", "chunks", "options"})
    names = list(plan.tables)
    if len(names) > 2:
        half = len(names) // 2
        yield frozenset(f"table:{name}" for name in names[:half])
        yield frozenset(f"table:{name}" for name in names[half:])
    yield frozenset({"session:2", "session:3"})
    yield frozenset({f"after:{plan.seconds / 2:g}"})
    for name in names:
        yield frozenset({f"table:{name}"})
    for kind in sorted(kinds):
        yield frozenset({f"fault:{kind}"})
    for kind in plan.kinds:
        yield frozenset({f"kind:{kind}"})
    for kind in ddl:
        yield frozenset({f"ddl:{kind}"})
    for name, table in plan.tables.items():
        for column in table.columns:
            if column.name != table.key_column:
                yield frozenset({f"{name}.{column.name}"})
    for kind in sorted({step.kind for step in plan.steps if step.session != 0}):
        yield frozenset({f"transaction:{kind}"})
    for kind in sorted({s.kind for step in plan.steps for s in step.statements if step.session != 0 and s.kind != "border"}):
        yield frozenset({f"statement:{kind}"})


def shrink(plan: Plan, failed: str, attempt: Try, *, attempts_max: int) -> frozenset[str]:
    """The largest mask found within so many runs under which the plan still fails in the same check."""
    mask = plan.mask
    runs = 0
    for part in parts(plan):
        if runs >= attempts_max:
            break
        if part <= mask or all(f"table:{name}" in mask | part for name in plan.tables):
            continue
        runs += 1
        if attempt(mask | part) == failed:
            mask = mask | part
    return mask
