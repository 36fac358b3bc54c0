"""Small files beside the tables, wherever those are: local, or any URL that Spark's Hadoop client can reach.

Only for what is no table: the lease of a running sink, what a checkpoint belongs to, commands to a running job. A local path is read by Python itself, so
the commands need no Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlparse

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from dblog_sink.errors import DefiniteError

_IF_NONE_IS_THERE = "fs.option.create.conditional.overwrite"
"""Hadoop's name for it (org.apache.hadoop.fs.Options.CreateFileOptionKeys)."""


class Folder(Protocol):
    """A folder of small texts."""

    @property
    def exclusive(self) -> bool:
        """Whether the store itself sees to it that of two that create a file one succeeds."""
        ...

    def read(self, name: str) -> str | None:
        """The text of a file, None if there is none."""
        ...

    def create(self, name: str, text: str) -> bool:
        """Write a file that is not there; False if it is. Of two that try, one succeeds. A reader may find it empty for a moment."""
        ...

    def replace(self, name: str, text: str) -> None:
        """Write a file anew, whole at once."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        ...

    def names(self) -> list[str]:
        """The files, in order of their names."""
        ...


def is_local(path: str) -> bool:
    """Whether Python can reach the path by itself."""
    return urlparse(path).scheme in ("", "file")


def check(session: SparkSession, paths: Mapping[str, str]) -> None:
    """Raise DefiniteError if a path, by the option that names it, is one place for Python and another for Spark.

    A path without a scheme is of this machine for the one, and of Hadoop's default file system for the other, which on a cluster is often no machine's own:
    tables would lie there, and the lease that keeps a second job away here.
    """
    default = str(session.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///"))  # noqa: SLF001
    if is_local(default):
        return
    for option, path in paths.items():
        if not urlparse(path).scheme:
            msg = f"{option} is {path}, and Spark's default file system is {default}; write {default.rstrip('/')}{path}, or file://{path} for this machine"
            raise DefiniteError(msg)


def folder(session: SparkSession | None, path: str) -> Folder:
    """The folder at ``path``; ``session`` is needed for URLs only."""
    if is_local(path):
        return LocalFolder(Path(unquote(urlparse(path).path)) if path.startswith("file:") else Path(path))
    assert session is not None
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
        self._path = path.rstrip("/")
        self._system = self._at("").getFileSystem(session.sparkContext._jsc.hadoopConfiguration())  # noqa: SLF001
        self.exclusive = str(self._system.getScheme()) not in ("s3", "s3a", "s3n")

    def read(self, name: str) -> str | None:
        path = self._at(name)
        if not self._system.exists(path):
            return None
        stream = self._system.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def create(self, name: str, text: str) -> bool:
        if self._system.exists(self._at(name)):
            return False
        try:
            self._write(name, text, overwrite=False)
        except Py4JJavaError:
            if self._system.exists(self._at(name)):  # somebody else was faster
                return False
            raise
        return True

    def replace(self, name: str, text: str) -> None:
        self._write(name, text, overwrite=True)

    def remove(self, name: str) -> None:
        self._system.delete(self._at(name), False)

    def names(self) -> list[str]:
        path = self._at("")
        if not self._system.exists(path):
            return []
        return sorted(str(status.getPath().getName()) for status in self._system.listStatus(path) if status.isFile())

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
