"""The commands that the pages for users show, and the tests that run them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docs.pages import Page, pages

PROGRAMS = (
    "make",
    "dblog",
    "dblog-sink",
    "python3 -m stack",
    "docker",
    "podman",
    "buildah",
    "helm",
    "kubectl",
    "promtool",
    "pip",
    "spark-submit",
)
"""What the first words of a command are, behind settings of the environment and the folder of a program."""

RUN_BY: dict[str, str] = {
    r"make demo( SOURCE=mysql)?": "tests/e2e/test_pipeline.py::test_the_lake_is_identical_to_the_source_after_kills_of_every_program",
    r"make test": ".ci/run",
    r"make docs(-serve)?": "tests/docs/test_site.py::test_the_site_builds_and_has_its_pages",
    r"make servers(-stop| SERVERS=.*)?": "tests/docs/test_readme.py::test_a_row_and_its_change_are_in_delta_when_the_tutorial_is_pasted",
    r"dblog worker .*": "tests/docs/test_readme.py::test_a_row_and_its_change_are_in_delta_when_the_tutorial_is_pasted",
    r"dblog tail .*": "tests/integration/test_tail.py::test_the_newest_records_of_all_partitions_are_shown_in_the_order_of_their_times",
    r"make release(-key)? .*": "tests/releases/test_make.py::test_make_says_what_a_release_needs_and_makes_a_key",
    r"make publish .*": "tests/releases/test_make.py::test_make_publishes_and_prints_the_commands_that_verify_and_install",
    r"helm install dblog oci:.*": "tests/releases/test_publish.py::test_the_printed_command_installs_the_chart_whose_images_are_those_of_the_release",
    r"helm install .*": "tests/chart/test_values.py::test_the_commands_of_the_readme_install_and_name_what_is_installed",
    r"helm -n dblog (upgrade|test) .*": "tests/chart/test_production.py::test_the_commands_of_the_page_name_what_the_first_look_and_the_values_for_production_have",
    r"kubectl -n dblog (create secret|delete pvc|port-forward) .*": "tests/chart/test_production.py::test_the_commands_of_the_page_name_what_the_first_look_and_the_values_for_production_have",
    r"kubectl label namespace dblog pod-security.*": "tests/kubernetes/node_for_real.py::test_a_node_runs_restricted_pods_refuses_others_and_leaves_nothing",
    r"kubectl -n dblog rollout restart .*": "tests/chart/test_values.py::test_the_commands_of_the_readme_install_and_name_what_is_installed",
    r"kubectl -n dblog get secret .*": "tests/chart/test_values.py::test_the_commands_of_the_readme_install_and_name_what_is_installed",
    r"kubectl -n dblog exec .*": "tests/integration/test_locked_worker.py::test_tasks_and_command_line_work_with_a_worker_that_asks_for_a_login",
    r"dblog connectors apply .*": "tests/worker/apply/test_apply.py::test_round_after_round_it_mends_drift_restarts_what_may_be_restarted_and_reports",
    r"dblog (context set|connectors (list|describe)|log) .*": "tests/worker/rest/test_commands.py::test_a_connector_is_created_compared_changed_back_steered_and_deleted",
    r"dblog (connectors stop|offsets set) .*": "tests/worker/rest/test_commands.py::test_a_position_is_tried_dry_and_then_set",
    r"dblog doctor .*": "tests/integration/test_doctor.py::test_the_doctor_names_missing_and_superfluous_privileges_and_its_statements_mend_both",
    r"dblog dumps watch .*": "tests/worker/rest/test_dumps_commands.py::test_on_a_terminal_the_first_dump_is_followed_with_a_bar",
    r"dblog dumps .*": "tests/worker/rest/test_dumps_commands.py::test_a_dump_is_started_listed_shown_changed_paused_resumed_and_stopped",
    r"dblog ddl explain .*": "tests/integration/test_ddl_explained.py::test_what_a_statement_would_do_is_reported_and_nothing_is_done",
    r"python3 -m stack up.*": "tests/servers/test_up.py::test_a_server_ends_with_the_command_that_started_it",
    r"python3 -m stack (start|stop).*": "tests/docs/test_readme.py::test_a_row_and_its_change_are_in_delta_when_the_tutorial_is_pasted",
    r"python3 -m stack setup": "tests/servers/test_setup.py::test_a_step_is_done_again_only_when_its_sources_change",
    r"make jars-s3a( FOLDER=.*)?": "tests/servers/test_setup.py::test_the_jars_for_s3_are_put_where_they_are_looked_for_with_the_log_store",
    r"make lake-test": "tests/sink/state/test_object_store.py::test_kills_at_the_steps_and_faults_of_the_store_between_them_change_nothing",
    r"dblog-sink submit .* --master spark:.*": "tests/integration/test_sink_on_a_cluster.py::test_executors_of_a_cluster_get_what_they_need_by_what_is_submitted",
    r"make sink .*": "tests/docs/test_readme.py::test_a_row_and_its_change_are_in_delta_when_the_tutorial_is_pasted",
    r"dblog-sink submit .* --master yarn .*": "tests/sink/job/test_submit.py::test_in_cluster_mode_the_configuration_goes_along",
    r"dblog-sink submit --config \S+( \[.*)?": "tests/integration/test_sink_on_kafka.py::test_the_command_follows_topics_and_stops_when_asked",
    r"dblog-sink show .*": "tests/docs/test_readme.py::test_a_row_and_its_change_are_in_delta_when_the_tutorial_is_pasted",
    r"dblog-sink verified .*": "tests/sink/reconcile/test_verify.py::test_rows_that_were_damaged_deleted_and_invented_are_found_and_named_and_no_others",
    r"dblog-sink (snapshots|as-of) .*": "tests/sink/snapshots/test_manifest.py::test_a_question_about_snapshots_names_a_point_of_the_source",
    r"dblog-sink (park|resume|replay|maintain) .*": "tests/docs/test_commands.py::test_commands_to_the_sink_are_left_for_it_as_the_page_has_them",
    r"dblog-sink explain .*": "tests/sink/query/test_explain.py::test_the_key_of_several_columns_is_asked_for_by_name",
    r"promtool check rules alerts.yaml": "tests/monitoring/test_rules.py::test_prometheus_accepts_the_rules_and_the_shortened_ones",
}
"""Of each command, as a pattern for the whole of it, the test that runs it."""

_BEFORE = re.compile(r"^(?:\$ )?(?:exec |nice |time )?(?:[A-Z_]+=\S* )*(?:build/venv/bin/)?")
_PROSE = re.compile(r"^\S+ \w+: ")  # "dblog worker: the process" in a picture
_FENCE = re.compile(r"^\s*```(\w*)")


@dataclass(frozen=True)
class Command:
    """One command of a page; what continues a line is part of it, comments and redirections are not."""

    page: str
    text: str


def commands(root: Path) -> list[Command]:
    """Those of all pages but for the tests' own."""
    return [Command(page.name, text) for page in pages(root) if not page.name.startswith("tests/") for text in _commands(page)]


def _commands(page: Page) -> Iterator[str]:
    for line in _lines_of_blocks(page.text):
        text = _BEFORE.sub("", line.strip())
        if not _PROSE.match(text) and (text.startswith(tuple(f"{program} " for program in PROGRAMS)) or text in PROGRAMS):
            yield re.sub(r"\s+(#.*|>.*|2>.*|\|.*|&|;.*)$", "", text).strip()


def _lines_of_blocks(text: str) -> Iterator[str]:
    """Lines of shell, and indented ones, those that end in a backslash joined."""
    language, joined = None, ""
    for line in text.splitlines():
        if match := _FENCE.match(line):
            language = None if language is not None else match[1]
            continue
        if language in ("", "bash", "sh", "console") or (language is None and line.startswith("    ")):
            joined += line
            if joined.endswith("\\"):
                joined = joined[:-1]
                continue
            yield joined
        joined = ""


def test_of(command: Command) -> str | None:
    """The test that runs the command; None if nobody does."""
    return next((test for pattern, test in RUN_BY.items() if re.fullmatch(pattern, command.text)), None)


test_of.__test__ = False  # type: ignore[attr-defined]  # not one of pytest's
