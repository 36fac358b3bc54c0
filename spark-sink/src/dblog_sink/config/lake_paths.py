"""PURE: whether the lake may be where the configuration puts it, by the schemes of its paths.

Two mistakes lose data without an error. A path on the machine (``file:``) is another folder on every executor, unless it is a mount that all share. And in S3
nothing keeps two writers from putting one Delta commit each under the same name: Delta's own log store for it (S3SingleDriverLogStore) only takes turns
within one driver, while S3DynamoDBLogStore locks (Delta documentation, "Storage configuration"). Azure, GCS and HDFS refuse to write
a file that is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlparse

_S3 = ("s3", "s3a", "s3n")
LOCKS = "io.delta.storage.S3DynamoDBLogStore"
LOG_STORE = "spark.delta.logStore.class"
"""Spark's setting for the log store of all schemes that have none of their own."""
_ONE_DRIVER = "S3SingleDriverLogStore"


def log_store_key(scheme: str) -> str:
    """Spark's setting for the log store of a scheme."""
    return f"spark.delta.logStore.{scheme}.impl"


def refusals(
    paths: Mapping[str, str], *, master: str, log_stores: Mapping[str, str], shared_mount: bool, single_driver: bool
) -> dict[str, str]:
    """By option, why the path that it gives is not accepted. ``paths`` have their schemes; ``log_stores``: the class that is set for each scheme."""
    found = {}
    for option, path in paths.items():
        scheme = urlparse(path).scheme
        if scheme == "file" and not _on_one_machine(master) and not shared_mount:
            found[option] = (
                f"{path} is on this machine, and the executors of {master} are on others: each would have a folder of its own. Give a URL of a store that "
                "all of them reach, or set storage.shared.mount=true if it is a mount that all of them share"
            )
        log_store = log_stores.get(scheme, _ONE_DRIVER if scheme in _S3 else "")
        if _ONE_DRIVER in log_store and not single_driver:
            found[option] = (
                f"{path} is in S3, where two drivers can overwrite each other's Delta commits. Set {log_store_key(scheme)}={LOCKS} with its DynamoDB "
                "table, for every writer and maintainer of these tables, or set storage.single.driver=true if no other driver ever writes to them"
            )
    return found


def _on_one_machine(master: str) -> bool:
    return master == "local" or master.startswith("local[")
