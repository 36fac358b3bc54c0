"""Each command that a page shows is run by a test, and means what the page says."""

import json
import re
import shlex
from pathlib import Path

import pytest
from dblog_sink import cli
from docs.commands import RUN_BY, Command, commands, test_of
from docs.pages import ROOT, defines, pages

COMMANDS = commands(ROOT)
OPTIONAL = re.compile(r"\[[^\]]*\]")


def test_each_command_of_a_page_is_run_by_a_test():
    assert [f"{one.page}: {one.text}" for one in COMMANDS if test_of(one) is None] == []
    assert len(COMMANDS) > 20


def test_the_tests_that_run_them_are_there_and_no_pattern_is_left_over():
    for pattern, test in RUN_BY.items():
        file, _, name = test.partition("::")
        assert (ROOT / file).exists(), test
        assert not name or defines(ROOT / file, name), test
        assert any(re.fullmatch(pattern, one.text) for one in COMMANDS), f"no page shows {pattern}"


def test_every_target_that_a_page_names_is_one_of_the_makefile():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        (page.name, target) for page in pages(ROOT) for target in re.findall(r"(?:`|^    |^)make ([a-z][\w-]*)", page.text, re.MULTILINE)
    }
    assert named
    assert sorted((page, target) for page, target in named if target not in targets) == []


TO_THE_SINK = [one for one in COMMANDS if re.match(r"dblog-sink (park|resume|replay|maintain) ", one.text)]


@pytest.mark.parametrize("command", TO_THE_SINK, ids=lambda one: one.text.split()[1])
def test_commands_to_the_sink_are_left_for_it_as_the_page_has_them(command: Command, tmp_path: Path):
    config = tmp_path / "sink.yaml"
    config.write_text(f"topics: t\nkafka.bootstrap.servers: localhost:9\nregistry.url: http://localhost:9\ntarget.path: {tmp_path}/lake\n")
    whole = command.text.replace("[", "").replace("]", "")  # with everything that may be left out, and without it
    for text in (whole, OPTIONAL.sub("", command.text)):
        _, verb, *arguments = shlex.split(text.replace("--config sink.yaml", f"--config {config}"))
        assert cli.main([verb, *arguments]) == 0

    left = [json.loads(file.read_text()) for file in (tmp_path / "lake" / "_dblog" / "commands").iterdir()]
    assert {one["verb"] for one in left} == {verb}
    assert {one["table"] for one in left} <= {"shop.orders", None}
