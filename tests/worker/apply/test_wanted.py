"""Connectors in files: both forms, JSON and YAML, folders as Kubernetes mounts them, and a sentence without values for each file that is wrong."""

import pytest
from dblog.apply.wanted import FILE_BYTES_MAX, WantedState, read_wanted
from dblog.errors import DefiniteError


def written(folder, **files):
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_the_forms_of_a_file(tmp_path):
    written(
        tmp_path,
        a__json='{"name": "shop", "state": "Paused", "config": {"n": 1.10, "big": 5000000, "on": true, "t": "x"}}',
        b__yaml="config: {n: 1.10, big: 5000000, on: no}\nstate: running\n",
        c__json='{"name": "flat", "connector.class": "M", "tasks.max": "1"}',
        d__txt="not read",
    )
    files = read_wanted(tmp_path)

    assert files.problems == ()
    assert {name: (one.config, one.state) for name, one in files.wanted.items()} == {
        "shop": ({"n": "1.10", "big": "5000000", "on": "true", "t": "x", "name": "shop"}, WantedState.PAUSED),
        "b": ({"n": "1.10", "big": "5000000", "on": "no", "name": "b"}, WantedState.RUNNING),
        "flat": ({"name": "flat", "connector.class": "M", "tasks.max": "1"}, None),
    }
    assert list(read_wanted(tmp_path / "a.json").wanted) == ["shop"]


def test_a_mounted_configmap_is_read_once(tmp_path):
    for part in ("values", "more"):
        version = tmp_path / part / "..2026_01_01"
        version.mkdir(parents=True)
        (version / f"{part}.json").write_text('{"config": {"a": "1"}}')
        (tmp_path / part / "..data").symlink_to(version.name)
        (tmp_path / part / f"{part}.json").symlink_to(f"..data/{part}.json")

    assert sorted(read_wanted(tmp_path).wanted) == ["more", "values"]
    assert read_wanted(tmp_path).problems == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is not JSON at line 1"),
        ("[]", "must hold one connector"),
        ('{"a": "1"}', "has neither config nor connector.class"),
        ('{"config": {}}', "has no configuration in config"),
        ('{"config": {"a": {"b": "s3cret"}}}', "has no text at config.a"),
        ('{"config": {"a": null}}', "has no text at config.a"),
        ('{"config": {"a": "1"}, "sate": "paused"}', "has the unknown field sate"),
        ('{"config": {"a": "1"}, "state": "s3cret"}', "has an unknown state; known are running, paused, stopped"),
        ('{"name": "x", "config": {"name": "y"}}', "has one name in config and another beside it"),
        ('{"config": {"a": "' + "x" * FILE_BYTES_MAX + '"}}', "is larger than 1 MiB"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_the_reason_and_without_its_values(tmp_path, text, reason):
    written(tmp_path, bad__json=text, good__json='{"config": {"a": "1"}}')
    files = read_wanted(tmp_path)

    assert list(files.wanted) == ["good"]
    (problem,) = files.problems
    assert str(problem).startswith(f"{tmp_path / 'bad.json'}: {reason}")
    assert "s3cret" not in str(problem)


def test_a_file_that_is_nested_too_deep_is_named_and_the_others_are_read(tmp_path):
    deep = "[" * 100_000
    files = read_wanted(written(tmp_path, a__json=deep, b__yaml=deep, good__json='{"config": {"a": "1"}}'))

    assert list(files.wanted) == ["good"]
    assert [problem.text.partition(" to be read")[0] for problem in files.problems] == ["has braces or brackets in each other too deep"] * 2


def test_yaml_that_is_wrong_is_named_with_its_line(tmp_path):
    (problem,) = read_wanted(written(tmp_path, a__yaml="config:\n  a: [s3cret\n")).problems

    assert problem.text.startswith("is not YAML at line")
    assert "s3cret" not in problem.text


def test_a_name_that_two_files_want_is_wanted_by_neither(tmp_path):
    files = read_wanted(written(tmp_path, a__json='{"name": "x", "config": {"a": "1"}}', b__json='{"name": "x", "config": {"a": "2"}}'))

    assert files.wanted == {}
    assert "both want it" in files.problems[0].text


def test_a_folder_that_is_missing_is_a_mistake_and_an_empty_one_is_not(tmp_path):
    with pytest.raises(DefiniteError, match="does not exist; name a file or a folder"):
        read_wanted(tmp_path / "nowhere")
    assert read_wanted(tmp_path).wanted == {}


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "a.json").symlink_to("nowhere")

    assert read_wanted(tmp_path).problems[0].text == "cannot be read: No such file or directory"
