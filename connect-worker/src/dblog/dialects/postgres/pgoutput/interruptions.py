"""Finds out if a table's changes were in the log all the time between two reads of the catalog.

ALTER PUBLICATION writes new rows of the catalog. A table that was taken out and put back, or that
got another list of columns or another row filter, has an entry with another number. SET (publish =
...) rewrites the publication's own row, which is part of every entry. So two sets of entries
without a common member show that the log may lack changes made in between, even if both reads found
the table published. ATTACH PARTITION and DETACH PARTITION rewrite the catalog's rows of all
columns, which nothing else does to a table with more than a few columns. # I3
"""

from __future__ import annotations

from dataclasses import replace

from dblog.model import Table


def interruption(before: Table, now: Table) -> str | None:
    """Return the reason why changes of a table between the two reads may be in no log, or under
    another name. Return None if nothing indicates that.
    """
    if before.published_by and now.published_by and set(before.published_by).isdisjoint(now.published_by):
        return "the publication has it by another entry than before: changes may be in no log that were made in between"
    if before.columns_written_by and now.columns_written_by and set(before.columns_written_by).isdisjoint(now.columns_written_by):
        return "all of its columns have new rows in the catalog, as if it had been a partition for a while: its rows then came under the other table's name"
    return None


def lost_partitions(before: Table, now: Table) -> bool:
    """Return True if rows may have left a partitioned table with a partition. The partition is no
    part of it any more, or was none for a while between the reads, so that deletes in it were not
    changes of the table.
    """
    known, places = set(before.partitions), set(before.attached)
    attached_since = {int(place.partition(":")[0]) for place in now.attached if place not in places}
    return not places <= set(now.attached) or not known <= set(now.partitions) or not known.isdisjoint(attached_since)


def has_other_files(before: Table, now: Table) -> bool:
    """Return True if all rows were rewritten between the two reads, by something other than
    TRUNCATE.
    """
    pairs = ((before.file, now.file), (before.large_values, now.large_values))
    return all(None not in pair and pair[0] != pair[1] for pair in pairs)


def kept_entries(before: Table, now: Table) -> Table:
    """Return ``now``, but with the earlier entries if the publication lacks the table at this
    moment. Then the next entry that it gets shows as another one.
    """
    return now if now.published_by or not before.published_by else replace(now, published_by=before.published_by)
