"""A Spark cluster of local processes: a master, and workers with a folder each."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pyspark
from stack import BRIEF_JVM, GuardedProcess
from stack.java import java
from stack.process import free_port

_HOME = Path(pyspark.__file__).parent
_DEPLOY = "org.apache.spark.deploy"


class SparkCluster:
    """A cluster: ``with SparkCluster(folder) as cluster: cluster.master``.

    Each worker has one core, and keeps the files for its executors in its own folder.
    """

    def __init__(self, folder: Path, *, workers: int = 2) -> None:
        self.folder = folder
        self.master = f"spark://127.0.0.1:{free_port()}"
        self._workers = workers
        self._running = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as started:
            host, port = self.master.removeprefix("spark://").split(":")
            started.enter_context(
                self._process("master", f"{_DEPLOY}.master.Master", "--host", host, "--port", port, reported="New state: ALIVE")
            )
            for n in range(self._workers):
                arguments = ("--host", host, "--cores", "1", "--memory", "1g", "--work-dir", str(self.work(n)), self.master)
                started.enter_context(
                    self._process(f"worker{n}", f"{_DEPLOY}.worker.Worker", *arguments, reported="Successfully registered")
                )
            self._running = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def work(self, worker: int) -> Path:
        """Return the folder in which a worker keeps an application's files."""
        return self.folder / f"worker{worker}" / "work"

    def _process(self, name: str, program: str, *arguments: str, reported: str) -> GuardedProcess:
        folder = self.folder / name
        folder.mkdir(parents=True)
        log = folder / "log"
        argv = [java(), *BRIEF_JVM.split(), "-Xmx256m", "-cp", f"{_HOME}/jars/*", program, "--webui-port", str(free_port()), *arguments]
        return GuardedProcess(
            f"Spark's {name}",
            argv,
            log=log,
            cwd=folder,
            env={
                "SPARK_HOME": str(_HOME),
                "SPARK_SCALA_VERSION": "2.13",
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_LOCAL_DIRS": str(folder / "local"),
                "PYTHONPATH": "",
            },
            ready=lambda: log.exists() and reported in log.read_text(errors="replace"),
            ready_timeout_s=60.0,
            grace_s=5.0,
        )
