"""Small files beside the tables, wherever those are: local, or any URL that Spark's Hadoop client can reach.

Only for what is no table: the lease of a running sink, what a checkpoint belongs to, commands to a running job. A path without a scheme is where Spark
and Delta have it: on Hadoop's default file system. A local path is read by Python itself, so the commands need no Spark there.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlparse

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

_IF_NONE_IS_THERE = "fs.option.create.conditional.overwrite"
"""Hadoop's name for it (org.apache.hadoop.fs.Options.CreateFileOptionKeys)."""
_DEFAULT_FS = frozenset({"spark.hadoop.fs.defaultFS", "spark.hadoop.fs.default.name"})
_CONFIGURED_BY = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME", "PYSPARK_GATEWAY_PORT")
"""Environment variables whose configuration may set a default file system; the last one is spark-submit's."""
_RENAMED_WHOLE = frozenset({"hdfs", "viewfs", "file"})
"""Where a rename replaces one file by another at once. Elsewhere Hadoop's clients delete the old one first, or copy (AbstractFileSystem, of which HDFS
alone overrides it), and a file is there when it was written to its end."""

_READS_MAX = 10
"""A file that is replaced while it is read is read again so often, with growing pauses."""
_READ_AGAIN_S = 0.02


class Folder(Protocol):
    """A folder of small texts."""

    @property
    def exclusive(self) -> bool:
        """Whether the store itself ensures that of two that create a file only one succeeds."""
        ...

    def read(self, name: str) -> str | None:
        """The text of a file, None if there is none."""
        ...

    def create(self, name: str, text: str) -> bool:
        """Write a file that does not exist; False if it does. Of two that try, one succeeds. A reader may find it empty for a moment."""
        ...

    def replace(self, name: str, text: str) -> None:
        """Replace a file, whole at once."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        ...

    def names(self) -> list[str]:
        """The files, in order of their names."""
        ...


def is_local(path: str, given: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> bool:
    """Whether Python is known to reach the path by itself; ``given``: the configuration's ``spark.*`` options."""
    scheme = urlparse(path).scheme
    elsewhere = _DEFAULT_FS & given.keys() or any(environment.get(name) for name in _CONFIGURED_BY)
    return scheme == "file" or (scheme == "" and not elsewhere)


def qualified(session: SparkSession, path: str) -> str:
    """The path with its scheme, as Spark and Delta understand it."""
    if urlparse(path).scheme:
        return path
    at: Any = session._jvm.org.apache.hadoop.fs.Path(path)  # type: ignore[union-attr]  # noqa: SLF001
    return str(at.getFileSystem(session.sparkContext._jsc.hadoopConfiguration()).makeQualified(at).toString())  # noqa: SLF001


def folder(session: SparkSession | None, path: str) -> Folder:
    """The folder at ``path``; ``session`` None: the path is known to be local."""
    if session is None or urlparse(qualified(session, path)).scheme == "file":
        return LocalFolder(Path(unquote(urlparse(path).path)) if path.startswith("file:") else Path(path))
    return HadoopFolder(session, path)


class LocalFolder:
    """On this machine."""

    exclusive = True

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, name: str) -> str | None:
        try:
            return (self._path / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def create(self, name: str, text: str) -> bool:
        self._path.mkdir(parents=True, exist_ok=True)
        try:
            with (self._path / name).open("x", encoding="utf-8") as out:
                out.write(text)
        except FileExistsError:
            return False
        return True

    def replace(self, name: str, text: str) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        fresh = self._path / f".{name}.new"
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(self._path / name)

    def remove(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)

    def names(self) -> list[str]:
        if not self._path.is_dir():
            return []
        return sorted(file.name for file in self._path.iterdir() if file.is_file() and not file.name.startswith("."))


class HadoopFolder:
    """Behind a URL, by the job's own Hadoop client and its configuration."""

    def __init__(self, session: SparkSession, path: str) -> None:
        jvm: Any = session.sparkContext._jvm  # noqa: SLF001  PySpark has no file system of its own
        self._jvm = jvm
        self._gateway: Any = session.sparkContext._gateway  # noqa: SLF001
        self._path = path.rstrip("/")
        self._configuration = session.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
        self._system = self._at("").getFileSystem(self._configuration)
        self._scheme = str(self._system.getUri().getScheme())
        self.exclusive = self._scheme not in ("s3", "s3a", "s3n")

    def read(self, name: str) -> str | None:
        path = self._at(name)
        for attempt in range(_READS_MAX):
            if not self._system.exists(path):
                return None
            try:
                stream = self._system.open(path)
                try:
                    return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
                finally:
                    stream.close()
            except Py4JJavaError:
                # Removed just now, or replaced: a store that opens a file at its first byte then refuses the rest (S3A's RemoteFileChangedException).
                if attempt == _READS_MAX - 1 and self._system.exists(path):
                    raise
                time.sleep(_READ_AGAIN_S * attempt)
        return None

    def create(self, name: str, text: str) -> bool:
        if self._system.exists(self._at(name)):
            return False
        try:
            self._write(name, text, overwrite=False)
        except Py4JJavaError:
            if (found := self.read(name)) is not None:
                return found == text  # else somebody else was faster; the same: it was written, and the store's answer was lost
            raise
        return True

    def replace(self, name: str, text: str) -> None:
        if self._scheme not in _RENAMED_WHOLE:
            self._write(name, text, overwrite=True)
            return
        # Created with overwrite, HDFS empties the file first: a kill before the end would leave it so.
        beside = f".{name}.{uuid.uuid4().hex[:8]}.new"
        self._write(beside, text, overwrite=True)
        fs = self._jvm.org.apache.hadoop.fs
        options = self._gateway.new_array(fs.Options.Rename, 1)
        options[0] = fs.Options.Rename.OVERWRITE
        try:
            fs.FileContext.getFileContext(self._system.getUri(), self._configuration).rename(self._at(beside), self._at(name), options)
        except Py4JJavaError:
            self._system.delete(self._at(beside), False)
            raise

    def remove(self, name: str) -> None:
        self._system.delete(self._at(name), False)

    def names(self) -> list[str]:
        path = self._at("")
        try:
            found = self._system.listStatus(path)
        except Py4JJavaError as error:
            # Not by a second look: an object store has a folder only while there is a file in it, and another writer may have made one since.
            if error.java_exception.getClass().getName() != "java.io.FileNotFoundException":
                raise
            return []
        names = (str(status.getPath().getName()) for status in found if status.isFile())
        return sorted(name for name in names if not name.startswith("."))

    def heeds_conditions(self) -> bool:
        """Whether the store refuses to write a name that is taken, when it is asked to; it is tried out."""
        name = f".dblog-probe-{uuid.uuid4().hex}"
        # Opened before there is such a file and closed when there is: so it is not the client's look that decides, but the store.
        stream = self._opened(name, overwrite=False)
        self._write(name, "first", overwrite=True)
        try:
            stream.write(bytearray(b"second"))
            try:
                stream.close()
            except Py4JJavaError:
                return self.read(name) == "first"
            return False
        finally:
            self.remove(name)

    def _write(self, name: str, text: str, *, overwrite: bool) -> None:
        stream = self._opened(name, overwrite=overwrite)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def _opened(self, name: str, *, overwrite: bool) -> Any:
        builder = self._system.createFile(self._at(name)).create().recursive().overwrite(overwrite)
        # A store with S3's interface looks when the file is opened and writes when it is closed, so of two that try both would succeed; unless it
        # is asked to write under the condition that there is none (If-None-Match). Other file systems have no such option, and need none.
        return (builder if overwrite else builder.opt(_IF_NONE_IS_THERE, True)).build()

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._path}/{name}" if name else self._path)
