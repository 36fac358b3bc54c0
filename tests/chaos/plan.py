"""A seed becomes a plan: everything that a run will do, decided before it starts. Pure; how statements of sessions meet in time is the only chance left.

A mask takes parts out of the plan of the same seed and leaves the others as they were, which is what shrinking needs. Its words:
``table:t1``, ``t1.c2`` (a column), ``statement:replace``, ``transaction:xa``, ``ddl`` or ``ddl:ghost``, ``fault:kill_task``, ``fault@3.25`` (the one at that
second), ``session:2``, ``kinds`` or ``kind:lacking``, ``log`` or ``log:binlog_checksum``, ``modes``, ``converter``, ``chunks``, ``options``, ``after:12.5`` (nothing is done after that second).
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass
from typing import Any

from chaos.converters import SINK_CONVERTERS
from chaos.drawing import Drawing
from chaos.effects import Statement, apply
from chaos.faults import Fault, faults_of
from chaos.kinds import AT_SHARES, KIND_SESSION, alone, clashing, drawn_kinds
from chaos.kinds import STEP_S as KIND_STEP_S
from chaos.sources import drawing_of

SESSIONS = 3
FILL_ROWS = 80
STEP_S = 0.15
"""A session begins a transaction about this often."""
DDL_SESSION = 0
PARTS = ("tables", "settings", "fill", "steps", "ddl", "faults")
FIRST_NUMBER = 10_000
"""Steps of kinds have numbers of their own, from here on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one session does at a moment: a transaction, or a kind of DDL."""

    at_s: float
    session: int
    kind: str
    statements: tuple[Statement, ...]

    def __str__(self) -> str:
        return f"{self.at_s:7.2f} s session {self.session} {self.kind}: " + "; ".join(s.sql for s in self.statements)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A whole run. ``tables`` is the schema at its start, ``outside`` a table that the include list gets later, ``fill`` the rows before the connector.

    ``kinds`` are the kinds of trouble of ``chaos.kinds``, and ``own`` what makes their tables.
    """

    seed: int
    flavor: str
    seconds: float
    mask: frozenset[str]
    settings: Any
    tables: dict[str, Any]
    fill: tuple[Statement, ...]
    steps: tuple[Step, ...]
    faults: tuple[Fault, ...]
    outside: str
    kinds: tuple[str, ...] = ()
    own: tuple[Statement, ...] = ()
    apart: bool = False
    """Whether the connector follows the kinds' tables only."""

    @property
    def sink(self) -> bool:
        """Whether the sink reads what this connector writes."""
        return self.settings.converter in SINK_CONVERTERS

    def lines(self) -> list[str]:
        """All of it, to be read."""
        return [
            f"seed {self.seed}, {self.flavor}, {self.seconds:g} s, mask {sorted(self.mask) or 'none'}",
            f"log: {self.settings.log}",
            f"connector: {self.settings.connector}",
            f"kinds: {', '.join(self.kinds) or 'none'}",
            *(table.without(self.mask).create for table in self.tables.values()),
            *(statement.sql for statement in (*self.own, *self.fill)),
            *map(str, sorted([*self.steps, *self.faults], key=lambda one: one.at_s)),
        ]


def plan_of(
    flavor: str,
    seed: int,
    *,
    seconds: float,
    mask: frozenset[str] = frozenset(),
    fault_kinds: tuple[str, ...] | None = None,
    cases: int = 1,
    only: tuple[str, ...] | None = None,
) -> Plan:
    """The plan of a seed; ``cases`` is how many cases of DDL the server has, ``only`` the kinds of trouble, where none are drawn."""
    # Each part has dice of its own, so that a change of one part leaves the others as they were.
    dice = {name: random.Random(f"{flavor} {seed} {name}") for name in PARTS}
    drawing = drawing_of(flavor, cases=cases)
    model = {t.name: t for t in drawing.tables(dice["tables"], count=dice["tables"].randint(2, 5))}
    settings = drawing.settings(dice["settings"], mask, list(model.values()))
    drawn = faults_of(dice["faults"], seconds=seconds, kinds=drawing.fault_kinds if fault_kinds is None else fault_kinds)
    outside = list(model)[-1] if any(fault.kind == "widen" for fault in drawn) and len(model) > 2 else ""
    able = drawing.kinds
    own_dice = {name: random.Random(f"{flavor} {seed} kind {name}") for name in able}
    kinds = drawn_kinds(own_dice, able, faults=[fault.kind for fault in drawn])
    kinds = tuple(name for name in (kinds if only is None else only) if not mask & {"kinds", f"kind:{name}"})
    drawn = [fault for fault in drawn if not any(fault.kind in clashing(name, able) for name in kinds)]
    settings = drawing.with_kinds(settings, kinds, list(model.values()))
    begun = copy.deepcopy(model)
    fill = [drawing.fill(dice["fill"], t, n, mask) for t in model.values() for n in range(dice["fill"].choice([0, FILL_ROWS, FILL_ROWS]))]
    steps = _steps(drawing, dice, model, mask, {name: own_dice[name] for name in kinds}, seconds=seconds)
    apart = alone(kinds, able)
    if apart:
        outside, begun, fill, steps = "", {}, [], [step for step in steps if step.session == KIND_SESSION]
    moments = {name: round(own_dice[name].uniform(*AT_SHARES) * seconds, 2) for name, kind in able.items() if kind.fault}
    drawn += [Fault(at_s, name) for name, at_s in moments.items() if name in kinds]
    drawn = [f for f in drawn if not mask & {"faults", f"fault:{f.kind}", f"fault@{f.at_s}"}]
    until_s = min([float(word.removeprefix("after:")) for word in mask if word.startswith("after:")], default=seconds)
    return Plan(
        seed=seed,
        flavor=flavor,
        seconds=seconds,
        mask=mask,
        settings=settings,
        tables={name: t for name, t in begun.items() if f"table:{name}" not in mask},
        fill=tuple(s for s in fill if f"table:{s.tables[0]}" not in mask),
        steps=tuple(step for step in (_masked(step, mask) for step in steps) if step is not None and step.at_s <= until_s),
        faults=tuple(f for f in sorted(drawn, key=lambda fault: fault.at_s) if f.at_s <= until_s),
        outside=outside if f"table:{outside}" not in mask else "",
        kinds=kinds,
        apart=apart,
        own=tuple(Statement(sql, "own") for name in kinds for sql in drawing.own_tables(name)),
    )


def _steps(
    drawing: Drawing,
    dice: dict[str, random.Random],
    model: dict[str, Any],
    mask: frozenset[str],
    kinds: dict[str, random.Random],
    *,
    seconds: float,
) -> list[Step]:
    """All steps in order of time; DDL changes the model for what comes after it."""
    moments: list[tuple[float, int, int, str]] = [
        (at_s, session, number, "")
        for number, (at_s, session) in enumerate(
            sorted(
                [(dice["ddl"].uniform(0.3, seconds), DDL_SESSION) for _ in range(int(seconds / drawing.ddl_s))]
                + [(dice["steps"].uniform(0, seconds), session) for session in range(1, SESSIONS + 1) for _ in range(int(seconds / STEP_S))]
            )
        )
    ]
    count = int(seconds / KIND_STEP_S)
    own_steps = [name for name in kinds if drawing.kinds[name].steps]
    moments += [
        (kinds[name].uniform(0, seconds), KIND_SESSION, FIRST_NUMBER + at * count + n, name)
        for at, name in enumerate(own_steps)
        for n in range(count)
    ]
    out = []
    for at_s, session, number, trouble in sorted(moments):
        # Dice of its own for each step: what a mask takes out changes nothing but what depends on it.
        part = kinds[trouble] if trouble else dice["ddl" if session == DDL_SESSION else "steps"]
        own = random.Random(part.getrandbits(64))
        if trouble:
            kind, done = trouble, drawing.kind_step(trouble, own, model, mask, number=number)
        elif session == DDL_SESSION:
            kind, done = drawing.ddl(own, model, number=number)
            if mask & {"ddl", f"ddl:{kind}"} or any(f"table:{name}" in mask for s in done for name in s.tables):
                continue
            if any(f"{model_born(model, s)}.{s.effect.name}" in mask for s in done if s.effect is not None and s.effect.name):
                continue
            for statement in done:
                if statement.effect is not None:
                    apply(model, statement.effect)
        else:
            kind, done = drawing.transaction(own, model, mask, number=number)
        out.append(Step(at_s=round(at_s, 3), session=session, kind=kind, statements=tuple(done)))
    return out


def model_born(model: dict[str, Any], statement: Statement) -> str:
    """The first name of the table that a statement changes."""
    assert statement.effect is not None
    return model[statement.effect.table].born if statement.effect.table in model else ""


def _masked(step: Step, mask: frozenset[str]) -> Step | None:
    if mask & {f"session:{step.session}", f"transaction:{step.kind}"}:
        return None
    left = tuple(s for s in step.statements if f"statement:{s.kind}" not in mask and not any(f"table:{name}" in mask for name in s.tables))
    if step.session != KIND_SESSION and all(s.kind == "border" for s in left):
        return None
    return Step(at_s=step.at_s, session=step.session, kind=step.kind, statements=left)
