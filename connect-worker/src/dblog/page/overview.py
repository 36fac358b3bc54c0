"""The overview: all connectors that the caller may see, what is wrong first."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from dblog.cluster.requests import bad_request
from dblog.config.roles import Role
from dblog.page.asked import Asked
from dblog.page.fleet import MEANINGS, Facts, Health, listed
from dblog.page.history import BYTES_EACH, CONNECTORS_MAX, REACHES, SERIES, Reach
from dblog.rest.access import shown_trace

_PAGE_SIZE = 50
_WRONG_SHOWN_MAX = 5


def seen(asked: Asked) -> dict[str, Facts]:
    """Return the facts of the connectors that the caller may see."""
    return {name: each for name, each in asked.fleet.facts(asked.services).items() if asked.may(Role.READER, name)}


async def load(asked: Asked) -> Mapping[str, Any]:
    """Return the values of the overview."""
    everything = seen(asked)
    word = asked.query("state").upper()
    health = Health[word] if word in Health.__members__ else None
    search = asked.query("q")
    found = listed(everything.values(), search=search, health=health, page=asked.number("page"), size=_PAGE_SIZE)
    wrong = sorted((each for each in everything.values() if each.health <= Health.STALLED), key=lambda each: each.order)
    kept = {name: value for name, value in (("q", search), ("state", word.lower() if health is not None else "")) if value}
    return {
        "title": "Connectors",
        "active": "connectors",
        "found": found,
        "health": health,
        "healths": list(Health),
        "meanings": MEANINGS,
        "search": search,
        "wrong": [(each, shown_trace(asked.request, each.name, each.trace)) for each in wrong[:_WRONG_SHOWN_MAX]],
        "wrong_more": max(0, len(wrong) - _WRONG_SHOWN_MAX),
        "query_of": Query(kept),
        "totals": _totals(everything.values()),
        "history": asked.history,
        "history_bytes_each": BYTES_EACH,
        "history_max": CONNECTORS_MAX,
        "reaches": REACHES,
        "may_create": asked.may_somewhere(Role.ADMIN),
    }


class Query:
    """Makes queries of the current search, with other values for some parameters."""

    def __init__(self, kept: Mapping[str, str]) -> None:
        self._kept = kept

    def __call__(self, **other: object) -> str:
        values = {**self._kept, **other}
        text = urlencode({name: str(value) for name, value in values.items() if value not in ("", None, 1)})
        return f"?{text}" if text else "?"


def _totals(everything: Any) -> dict[str, float | None]:
    found = list(everything)

    def total(values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return sum(known) if known else None

    lags = [each.lag_s for each in found if each.lag_s is not None]
    return {
        "changes_per_s": total([each.changes_per_s for each in found]),
        "dumped_per_s": total([each.dumped_per_s for each in found]),
        "bytes_per_s": total([each.bytes_per_s for each in found]),
        "lag_s": max(lags) if lags else None,
        "behind_bytes": total([each.behind_bytes for each in found]),
    }


async def series(asked: Asked) -> Mapping[str, Any]:
    """Return the series of all connectors together. Only for those who may see all."""
    if not asked.may(Role.READER):
        raise bad_request("The charts of all connectors are for those who may see all of them; open one of yours")
    return series_of(asked, None)


def series_of(asked: Asked, name: str | None) -> Mapping[str, Any]:
    """Return the series of a connector, or of all, over the reach that the query names."""
    reach = _reach(asked.query("reach"))
    now_s = time.time()
    return {
        "reach": reach.name,
        "end_s": int(now_s // reach.step_s) * reach.step_s,
        "step_s": reach.step_s,
        "since_s": asked.history.since_s,
        "series": asked.history.series(name, reach, SERIES, now_s),
    }


def _reach(text: str) -> Reach:
    for each in REACHES:
        if each.name == (text or REACHES[0].name):
            return each
    raise bad_request(f"There is no reach {text[:20]}; there are {', '.join(each.name for each in REACHES)}")
