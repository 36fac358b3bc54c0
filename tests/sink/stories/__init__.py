"""Stories by dice: what happens to a source, its topics and the sink's tables, each kind with a model of what must come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sink.stories.columns import defaults, renames
from sink.stories.hand_overs import hand_overs
from sink.stories.keys import exchanged_keys, first_truncates
from sink.stories.logs import folded_chunks, many_partitions, month, topics_made_again, vacuums
from sink.stories.play import Play
from sink.stories.tables import one_name, parked, quarantine

STORIES: Mapping[str, Callable[[Play], None]] = {
    story.__name__: story
    for story in (
        hand_overs,
        renames,
        defaults,
        exchanged_keys,
        first_truncates,
        one_name,
        parked,
        quarantine,
        topics_made_again,
        many_partitions,
        vacuums,
        folded_chunks,
        month,
    )
}
"""By name. A seed of the campaign tells one of them: the order is what seeds mean, so new kinds come last."""
