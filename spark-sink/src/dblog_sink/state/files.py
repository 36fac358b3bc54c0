"""Reads and writes small files beside the tables, local or at any URL of Spark's Hadoop client.

They are for what is not a table: the lease of a running sink, the configuration of a checkpoint,
commands to a running job. A path without a scheme is on Hadoop's default file system, as for Spark
and Delta. A local path is read by Python itself, so commands need no Spark there.
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
"""Hadoop's option for a conditional write (org.apache.hadoop.fs.Options.CreateFileOptionKeys)."""
_DEFAULT_FS = frozenset({"spark.hadoop.fs.defaultFS", "spark.hadoop.fs.default.name"})
_CONFIGURED_BY = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME", "PYSPARK_GATEWAY_PORT")
"""Environment variables whose configuration may set a default file system; the last one is
spark-submit's.
"""
_RENAMED_WHOLE = frozenset({"hdfs", "viewfs", "file"})
"""Schemes for which a rename atomically replaces another file. Elsewhere Hadoop's clients first
delete the old file, or copy (AbstractFileSystem, which only HDFS overrides), but a file there only
appears once it is completely written.
"""

_READS_MAX = 10
"""Attempts to read a file that is replaced meanwhile, with growing pauses."""
_READ_AGAIN_S = 0.02


class Folder(Protocol):
    """A folder of small text files."""

    @property
    def exclusive(self) -> bool:
        """True if the store guarantees that only one of two concurrent creations of a file
        succeeds.
        """
        ...

    def read(self, name: str) -> str | None:
        """Return the text of a file, or None if it does not exist."""
        ...

    def create(self, name: str, text: str) -> bool:
        """Write a new file, or return False if it exists.

        Of two concurrent calls one succeeds. A reader may briefly find the file empty.
        """
        ...

    def replace(self, name: str, text: str) -> None:
        """Replace a file atomically."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        ...

    def names(self) -> list[str]:
        """Return the names of the files, sorted."""
        ...


def is_local(path: str, given: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> bool:
    """Return True if Python itself can certainly read the path.

    ``given`` has the configuration's ``spark.*`` options.
    """
    scheme = urlparse(path).scheme
    elsewhere = _DEFAULT_FS & given.keys() or any(environment.get(name) for name in _CONFIGURED_BY)
    return scheme == "file" or (scheme == "" and not elsewhere)


def qualified(session: SparkSession, path: str) -> str:
    """Return the path with its scheme, as Spark and Delta understand it."""
    if urlparse(path).scheme:
        return path
    at: Any = session._jvm.org.apache.hadoop.fs.Path(path)  # type: ignore[union-attr]  # noqa: SLF001
    return str(at.getFileSystem(session.sparkContext._jsc.hadoopConfiguration()).makeQualified(at).toString())  # noqa: SLF001


def folder(session: SparkSession | None, path: str) -> Folder:
    """Return the folder at ``path``. ``session`` is None if the path is known to be local."""
    if session is None or urlparse(qualified(session, path)).scheme == "file":
        return LocalFolder(Path(unquote(urlparse(path).path)) if path.startswith("file:") else Path(path))
    return HadoopFolder(session, path)


class LocalFolder:
    """A folder on this machine."""

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
        # Two processes may replace one file at once.
        fresh = self._path / f".{name}.{uuid.uuid4().hex[:8]}.new"
        try:
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(self._path / name)
        except OSError:
            fresh.unlink(missing_ok=True)
            raise

    def remove(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)

    def names(self) -> list[str]:
        if not self._path.is_dir():
            return []
        return sorted(file.name for file in self._path.iterdir() if file.is_file() and not file.name.startswith("."))


class HadoopFolder:
    """A folder at a URL, accessed by the job's Hadoop client."""

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
                # The file was just removed or replaced: a store that opens it at its first byte
                # then refuses the rest (S3A's RemoteFileChangedException).
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
                # Another text means that somebody else was faster. The same text means that it was
                # written, and the store's answer was lost.
                return found == text
            raise
        return True

    def replace(self, name: str, text: str) -> None:
        if self._scheme not in _RENAMED_WHOLE:
            self._write(name, text, overwrite=True)
            return
        # With overwrite, HDFS would empty the file first, and a crash before the end would leave it
        # so.
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
            # The error's class decides, not a second look: an object store has a folder only while
            # there is a file in it, and another writer may have created one since.
            if error.java_exception.getClass().getName() != "java.io.FileNotFoundException":
                raise
            return []
        names = (str(status.getPath().getName()) for status in found if status.isFile())
        return sorted(name for name in names if not name.startswith("."))

    def heeds_conditions(self) -> bool:
        """Test whether the store refuses to overwrite a file if asked to, and return the result."""
        name = f".dblog-probe-{uuid.uuid4().hex}"
        # Opened before the file exists and closed after, so that the store decides instead of the
        # client's own check.
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
        # A store with S3's interface checks when the file is opened and writes when it is closed,
        # so two concurrent creations would both succeed unless it is asked to write only if there
        # is no such file (If-None-Match). Other file systems lack this option and do not need it.
        return (builder if overwrite else builder.opt(_IF_NONE_IS_THERE, True)).build()

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._path}/{name}" if name else self._path)
