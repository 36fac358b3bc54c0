"""Decides by the schemes of its paths whether the lake may be where the configuration puts it.
Pure.

Two mistakes lose data without an error. A path on the machine (``file:``) is a different folder on
every executor, unless it is a shared mount. And a commit of Delta must never replace another
driver's of the same version, which depends on the log store (Delta documentation, "Storage
configuration"; DelegatingLogStore has the defaults). HDFS, Azure and GCS refuse to write an
existing name. In S3 Delta's default log store (S3SingleDriverLogStore) only serializes commits
within one driver; the sink's log store writes conditionally, and S3DynamoDBLogStore locks. For any
other store Delta renames files, and it is unknown whether an existing name is refused.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from urllib.parse import urlparse

S3 = ("s3", "s3a", "s3n")
_EXCLUSIVE = frozenset({"file", "hdfs", "viewfs", "abfs", "abfss", "adl", "wasb", "wasbs", "gs"})
"""Schemes for which Delta's default log store never replaces a commit."""
CONDITIONAL = "dblog.sink.S3ConditionalLogStore"
"""Class of the sink's own log store, in the jars for S3 (spark-sink/java)."""
DYNAMODB = "io.delta.storage.S3DynamoDBLogStore"
LOG_STORE = "spark.delta.logStore.class"
"""Spark's setting for the log store of schemes without their own."""
_ONE_DRIVER = "S3SingleDriverLogStore"


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//[^/]*)?")


def plainly(path: str) -> str:
    """Return the one spelling of a path, by which it can be compared: Hadoop's Path takes ``//``
    and ``/./`` for a slash, goes up for ``/../``, and a path of the machine may have ``file:``.
    """
    scheme, authority = found.groups() if (found := _SCHEME.match(path)) else ("", None)
    rest = (
        posixpath.normpath(f"/{path[found.end() if found else 0 :].lstrip('/')}")
        if found or path.startswith("/")
        else posixpath.normpath(path)
    )
    return rest if scheme.lower() in ("", "file") else f"{scheme}:{authority or ''}{rest}".rstrip("/")


def log_store_key(scheme: str) -> str:
    """Return Spark's setting for the log store of a scheme."""
    return f"spark.delta.logStore.{scheme}.impl"


def refusals(
    paths: Mapping[str, str], *, master: str, log_stores: Mapping[str, str], shared_mount: bool, single_driver: bool
) -> dict[str, str]:
    """Return why paths are not accepted, by option.

    ``paths`` must have their schemes. ``log_stores`` has the class that is set for each scheme.
    """
    found = {}
    for option, path in paths.items():
        scheme = urlparse(path).scheme
        if scheme == "file" and not _on_one_machine(master) and not shared_mount:
            found[option] = (
                f"{path} is on this machine, and the executors of {master} are on others: each would have a folder of its own. Give a URL of a store that "
                "all of them reach, or set storage.shared.mount=true if it is a mount that all of them share"
            )
        log_store = log_stores.get(scheme, _ONE_DRIVER if scheme in S3 else "")
        if single_driver:
            continue
        if _ONE_DRIVER in log_store:
            found[option] = (
                f"{path} is in S3, where two drivers can overwrite each other's Delta commits. Set {log_store_key(scheme)}={CONDITIONAL} (or "
                f"{DYNAMODB} with its DynamoDB table) for every writer and maintainer of these tables, or set storage.single.driver=true if no other driver "
                "ever writes to them; spark-sink/docs/object-stores.md has the rest"
            )
        elif not log_store and scheme not in _EXCLUSIVE:
            found[option] = (
                f"{path} is in a store of which nothing is known: where a rename replaces a file, two drivers can overwrite each other's Delta commits. Set "
                f"{log_store_key(scheme)} to a log store that refuses that, or set storage.single.driver=true if no other driver ever writes to these tables"
            )
    return found


def _on_one_machine(master: str) -> bool:
    return master == "local" or master.startswith("local[")
