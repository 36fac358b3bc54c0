"""What the sink's image becomes for each kind of argument, and under any number."""

import http.server
import importlib.util
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from dblog_sink.config import job_options

FILE = Path(__file__).parents[2] / "docker" / "images" / "inside" / "sink_entrypoint.py"
SPEC = importlib.util.spec_from_file_location("sink_entrypoint", FILE)
entrypoint = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(entrypoint)
HOME = Path("/spark")
POD = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:7078",
    "SPARK_EXECUTOR_ID": "7",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "dblog-exec-7",
    "SPARK_EXECUTOR_MEMORY": "2g",
}


@pytest.mark.parametrize("arguments", [["submit", "--config", "/etc/dblog/sink.yaml"], ["jars"], ["--help"]])
def test_arguments_go_to_the_sinks_command(arguments):
    assert entrypoint.command(arguments, {}, HOME) == ["dblog-sink", *arguments]


def test_a_containers_log_is_json_unless_the_job_says_another(tmp_path):
    defaults = FILE.with_name("defaults.yaml")
    (tmp_path / "sink.yaml").write_text("log.format: plain\n")

    name, verb, *arguments = entrypoint.command(["submit", "--config", str(tmp_path / "sink.yaml")], {}, HOME, defaults=defaults)

    files = [Path(argument) for argument in arguments if argument != "--config"]
    assert (name, verb) == ("dblog-sink", "submit")
    assert [job_options.read_file(file)["log.format"] for file in files] == ["json", "plain"]  # a later file wins
    assert set(job_options.read_file(defaults)) <= {option.name for option in job_options.OPTIONS}
    assert f"cp /build/inside/defaults.yaml {entrypoint.DEFAULTS.parent}/" in (FILE.parents[1] / "sink.Dockerfile").read_text()


def test_another_program_gets_its_own_arguments():
    assert entrypoint.command(["exec", "spark-submit", "--version"], {}, HOME) == ["spark-submit", "--version"]


def test_an_executor_is_javas_program_with_what_its_pod_was_told():
    environment = {
        **POD,
        "SPARK_JAVA_OPT_10": "-Dten=10",
        "SPARK_JAVA_OPT_2": "-Dtwo=2",
        "SPARK_CLASSPATH": "/extra/*",
        "SPARK_CONF_DIR": "/conf",
    }

    line = entrypoint.command(["executor"], environment, HOME)

    assert line[:5] == ["java", "-Dtwo=2", "-Dten=10", "-Xms2g", "-Xmx2g"]
    assert line[line.index("-cp") + 1] == "/conf:/spark/jars/*:/extra/*"
    program = line.index("org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend")
    assert line[program + 1 :] == [
        "--driver-url",
        POD["SPARK_DRIVER_URL"],
        "--executor-id",
        "7",
        "--cores",
        "2",
        "--app-id",
        "spark-1",
        "--hostname",
        "10.0.0.7",
        "--resourceProfileId",
        "0",
        "--podName",
        "dblog-exec-7",
    ]


def test_an_executor_without_its_pods_variables_says_which_are_missing():
    with pytest.raises(SystemExit, match="SPARK_DRIVER_URL"):
        entrypoint.command(["executor"], {name: value for name, value in POD.items() if name != "SPARK_DRIVER_URL"}, HOME)


def test_a_driver_of_cluster_mode_runs_in_its_own_pod():
    line = entrypoint.command(
        ["driver", "--properties-file", "/opt/spark/conf/spark.properties", "a.py"], {"SPARK_DRIVER_BIND_ADDRESS": "10.0.0.1"}, HOME
    )

    assert line[0] == "/spark/bin/spark-submit"
    assert "spark.driver.bindAddress=10.0.0.1" in line
    assert line[-5:] == ["--deploy-mode", "client", "--properties-file", "/opt/spark/conf/spark.properties", "a.py"]


def test_a_number_with_a_name_runs_as_it_is():
    assert entrypoint.named({"A": "b"}, known=lambda _uid: object()) == {"A": "b"}


def test_a_number_without_a_name_gets_one_where_the_image_has_the_library_for_it(tmp_path, monkeypatch):
    def unknown(uid):
        raise KeyError(uid)

    library = tmp_path / "x86_64-linux-gnu" / "libnss_wrapper.so"
    library.parent.mkdir()
    library.touch()
    monkeypatch.setattr(entrypoint, "LIBRARIES", tmp_path)

    environment = entrypoint.named({"LD_PRELOAD": "/first.so"}, known=unknown, uid=54321, folder=str(tmp_path))

    assert environment["LD_PRELOAD"] == f"/first.so {library}"
    assert Path(environment["NSS_WRAPPER_PASSWD"]).read_text().startswith("dblog:x:54321:0:")
    assert Path(environment["NSS_WRAPPER_GROUP"]).exists()


@pytest.fixture
def numbers():
    """A place where the job's numbers are, as the test sets them."""

    class Numbers(http.server.BaseHTTPRequestHandler):
        text = ""

        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self.text.encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Numbers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Numbers, f"http://127.0.0.1:{server.server_port}/metrics"
        server.shutdown()


@pytest.mark.parametrize(
    ("text", "healthy"), [("dblog_sink_running 1.0\n", True), ("dblog_sink_running 0.0\n", False), ("other 1\n", False)]
)
def test_the_job_is_healthy_while_its_own_number_says_that_the_query_runs(numbers, text, healthy):
    kind, url = numbers
    kind.text = text

    assert entrypoint.healthy({entrypoint.HEALTH_URL: url}) is healthy


def test_health_asks_no_proxy(numbers):
    kind, url = numbers
    kind.text = "dblog_sink_running 1.0\n"
    environment = {"PATH": os.environ["PATH"], "http_proxy": "http://127.0.0.1:1", entrypoint.HEALTH_URL: url}

    # A process of its own, for this one keeps the proxies that it has met first.
    assert subprocess.run([sys.executable, str(FILE), "health"], env=environment, check=False).returncode == 0


def test_a_job_whose_numbers_cannot_be_read_is_not_healthy():
    assert entrypoint.healthy({entrypoint.HEALTH_URL: "http://127.0.0.1:1/metrics"}) is False


def test_without_numbers_a_driver_that_runs_is_healthy(tmp_path):
    (tmp_path / "17").mkdir()
    (tmp_path / "17" / "cmdline").write_bytes(b"bash\0-c\0x\0")
    assert entrypoint.healthy({}, tmp_path) is False

    (tmp_path / "18").mkdir()
    (tmp_path / "18" / "cmdline").write_bytes(b"java\0-cp\0/x\0org.apache.spark.deploy.SparkSubmit\0")
    assert entrypoint.healthy({}, tmp_path) is True


def test_the_program_becomes_what_it_starts(tmp_path):
    program = tmp_path / "dblog-sink"
    program.write_text('#!/bin/sh\necho "$$ $* $SPARK_HOME"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "SPARK_HOME": "/spark"}

    with subprocess.Popen(
        [sys.executable, str(FILE), "submit", "--config", "x.yaml"], env=environment, stdout=subprocess.PIPE, text=True
    ) as started:
        said = started.communicate(timeout=60)[0]

    assert said == f"{started.pid} submit --config x.yaml /spark\n"
