"""How the job is started: one command knows the jars, the code and the program."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from dblog_sink import cli
from dblog_sink.errors import DefiniteError
from dblog_sink.job import submit

ROOT = Path(__file__).parents[3]
LEAST = "topics: p.a.b\nkafka.bootstrap.servers: 127.0.0.1:1\nregistry.url: http://127.0.0.1:1\ntarget.path: /lake\n"


def values(line: list[str], name: str) -> list[str]:
    """What an option of the line is given, each time."""
    return [line[at + 1] for at, argument in enumerate(line) if argument == name]


def line(*spark: str, files: list[Path], **properties: str) -> list[str]:
    given = {f"spark.{name.replace('_', '.')}": value for name, value in properties.items()}
    program, code = Path("/share/run.py"), Path("/share/code.zip")
    return submit.line(
        spark=spark, sink=["--set", "a=b"], files=files, jars=[Path("/j/a.jar")], program=program, code=code, properties=given
    )


def test_the_printed_line_is_the_whole_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "sink.yaml"
    config.write_text(LEAST)

    assert (
        cli.main(["submit", "--config", str(config), "--set", "trigger.interval.s=5", "--print", "--", "--conf", "spark.ui.enabled=false"])
        == 0
    )

    printed = shlex.split(capsys.readouterr().out)
    assert Path(printed[0]).name == "spark-submit"
    assert Path(printed[0]).exists()
    assert all(Path(jar).exists() for jar in values(printed, "--jars")[0].split(","))
    assert values(printed, "--master") == ["local[*]"]
    assert printed[-4:] == ["--config", str(config), "--set", "trigger.interval.s=5"]


def test_jars_that_are_not_there_are_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("DBLOG_SINK_JARS", str(tmp_path))
    (tmp_path / "delta-storage-4.4.0.jar").touch()

    assert cli.main(["jars"]) == 1

    assert "delta-spark_4.1_2.13, spark-sql-kafka" in caplog.text
    assert "make setup" in caplog.text


def test_a_driver_is_made_with_what_a_placeholder_stands_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_OF_THE_JOB", "5g")
    monkeypatch.delenv("NO_SUCH_MEMORY", raising=False)

    assert values(line(files=[], driver_memory="${env:MEMORY_OF_THE_JOB}"), "--driver-memory") == ["5g"]
    with pytest.raises(DefiniteError, match=r"spark\.driver\.memory: the environment variable NO_SUCH_MEMORY is not set"):
        line(files=[], driver_memory="${env:NO_SUCH_MEMORY}")


def test_what_is_given_wins_over_what_the_line_would_have() -> None:
    made = line("--driver-memory=8g", "--master", "yarn", files=[Path("/etc/sink.yaml")])

    assert values(made, "--master") == ["yarn"]
    assert "--driver-memory" not in made
    assert values(made, "--config") == ["/etc/sink.yaml"]
    assert values(made, "--files") == []
    assert "--master" not in line(files=[], master="spark://m:7077")


def test_a_configuration_states_what_the_driver_is_made_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "sink.yaml"
    config.write_text(LEAST + "spark.driver.memory: 7g\nspark.driver.cores: 2\n")

    options = ["--set", "spark.driver.extraJavaOptions=-Xss9m -Da=b", "--set", " spark.master =local[3]", "--print"]
    assert cli.main(["submit", "--config", str(config), *options]) == 0

    printed = shlex.split(capsys.readouterr().out)
    assert values(printed, "--driver-memory") == ["7g"]
    assert values(printed, "--driver-java-options") == ["-Xss9m -Da=b"]
    assert values(printed, "--conf") == ["spark.driver.cores=2"]
    assert "--master" not in printed


def test_an_option_without_a_value_is_refused_before_spark_is_started(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = tmp_path / "sink.yaml"
    config.write_text(LEAST)

    assert cli.main(["submit", "--config", str(config), "--set", "spark.driver.memory", "--print"]) == 2

    assert "must be KEY=VALUE" in caplog.text


def test_a_configuration_is_checked_before_spark_is_started(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = tmp_path / "sink.yaml"
    config.write_text(LEAST.replace("target.path", "target.pth"))

    assert cli.main(["submit", "--config", str(config), "--print"]) == 2

    assert "target.pth is not an option of the sink" in caplog.text
    assert "target.path is required" in caplog.text


def test_what_only_the_drivers_machine_has_is_left_to_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_LAKE", raising=False)
    config = tmp_path / "sink.yaml"
    config.write_text(LEAST.replace("/lake", "${env:NO_SUCH_LAKE}"))

    assert cli.main(["submit", "--config", str(config), "--print"]) == 0


@pytest.mark.parametrize("how", [["--deploy-mode", "cluster"], ["--deploy-mode=cluster"]])
def test_in_cluster_mode_the_configuration_goes_along(how: list[str]) -> None:
    made = line("--master", "yarn", *how, files=[Path("/etc/a.yaml"), Path("/etc/b.yaml")])

    assert values(made, "--files") == ["/etc/a.yaml,/etc/b.yaml"]
    assert values(made, "--config") == ["a.yaml", "b.yaml"]


def test_the_program_runs_where_only_it_and_its_archive_are(tmp_path: Path) -> None:
    program, code = submit.archive(tmp_path / "made")
    shutil.copy(program, tmp_path / "run.py")
    lines = (
        f"import sys; sys.path[:0] = [{str(code)!r}]; import dblog_sink.cli, delta.tables, yaml; "
        f"assert all({str(code)!r} in m.__file__ for m in (dblog_sink.cli, delta.tables, yaml)); "
        f"sys.argv = ['run.py', '--help']; exec(compile(open({str(tmp_path / 'run.py')!r}).read(), 'run.py', 'exec'))"
    )

    ended = subprocess.run([sys.executable, "-c", lines], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (ended.returncode, "manifest.interval.s" in ended.stdout) == (0, True), ended.stderr


def test_a_program_that_was_copied_alone_states_what_it_lacks(tmp_path: Path) -> None:
    shutil.copy(ROOT / "spark-sink" / "run.py", tmp_path / "run.py")

    ended = subprocess.run([sys.executable, "-S", str(tmp_path / "run.py")], capture_output=True, text=True, check=False)

    assert "dblog_sink is not here; submit the job with `dblog-sink submit`" in ended.stderr


def test_a_package_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)  # as Python marks a module that cannot be imported

    with pytest.raises(DefiniteError, match="the package yaml is not installed"):
        submit.archive(tmp_path)
