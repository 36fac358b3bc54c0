"""Config providers: what is replaced, what is refused, and that nothing replaced is ever shown."""

import os
import time

import pytest
from dblog.config.named_files import FILE_BYTES_MAX
from dblog.config.providers import DirectoryProvider, EnvProvider, FileProvider, build_providers, resolve
from dblog.config.regex import Pattern
from dblog.errors import ConfigError
from structlog.testing import capture_logs


@pytest.fixture
def providers(tmp_path):
    (tmp_path / "x.properties").write_text("password=geheim\nuser=root\n", encoding="utf-8")
    (tmp_path / "token").write_text("whole file", encoding="utf-8")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "inside").mkdir()
    return {
        "file": FileProvider((tmp_path,)),
        "dir": DirectoryProvider((tmp_path,)),
        "env": EnvProvider(Pattern("DB_.*"), {"DB_PASSWORD": "from-env", "PATH": "/bin"}),
    }


def test_placeholders_are_replaced_wherever_they_stand(providers, tmp_path):
    done = resolve(
        {
            "plain": "p",
            "one": f"${{file:{tmp_path}/x.properties:password}}",
            "two": f"${{file:{tmp_path}/x.properties:user}}@${{env:DB_PASSWORD}}!",
            "three": f"${{dir:{tmp_path}:token}}",
            "null": None,
        },
        providers,
    )

    assert done.errors == {}
    assert done.values == {"plain": "p", "one": "geheim", "two": "root@from-env!", "three": "whole file"}
    assert set(done.placeholders) == {"one", "two", "three"}


def test_replaced_values_are_known_with_their_placeholders(providers, tmp_path):
    placeholder = f"${{file:{tmp_path}/x.properties:password}}"

    done = resolve({"a": placeholder, "b": "${env:DB_PASSWORD}"}, providers)

    assert done.secrets == {"geheim": placeholder, "from-env": "${env:DB_PASSWORD}"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("${vault:a:b}", "no config provider 'vault' (config.providers: file, dir, env)"),
        ("${env:PATH}", "allowlist.pattern"),
        ("${env:DB_OTHER}", "no environment variable DB_OTHER"),
        ("${env:x:DB_PASSWORD}", "environment variables have no path"),
        ("${file:TMP/x.properties:nothing}", "has to be a properties file with the key nothing"),
        ("${file:TMP/none.properties:a}", "has to be a properties file with the key a"),
        ("${file:/etc/passwd:root}", "outside the provider's allowed.paths"),
        ("${file:TMP/../../etc/passwd:root}", "outside the provider's allowed.paths"),
        ("${file:x.properties:a}", "not an absolute path"),
        ("${file:TMP/x.properties}", "it has no key after the path; write it as ${file:/path:key}"),
        ("${file:TMP/x.properties:}", "it has no key after the path; write it as ${file:/path:key}"),
        ("${dir:TMP}", "it has no name of a file after the folder; write it as ${dir:/path:file}"),
        ("${dir:TMP:}", "it has no name of a file after the folder; write it as ${dir:/path:file}"),
        ("${dir:TMP:../x}", "is not the name of a file"),
        ("${dir:TMP:nothing}", "has to be a text in UTF-8"),
    ],
)
def test_what_cannot_be_replaced_is_an_error_with_its_reason(providers, tmp_path, text, reason):
    done = resolve({"k": text.replace("TMP", str(tmp_path))}, providers)

    assert list(done.errors) == ["k"]
    assert reason in done.errors["k"][0]


def test_no_answer_shows_one_path_from_another(tmp_path):  # number 4 of the worker's safety
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "other").write_text("a=1\n")
    (tmp_path / "broken").write_text("key=\\u12\n")
    (tmp_path / "large").write_bytes(b"a" * (FILE_BYTES_MAX + 1))
    os.mkfifo(tmp_path / "pipe")
    paths = [
        "/dev/zero",
        "/dev/null",
        "/proc/kmsg",
        *(str(tmp_path / name) for name in ("none", "binary", "other", "broken", "large", "pipe", ".")),
    ]
    providers = {"file": FileProvider(), "dir": DirectoryProvider()}

    of_file = {
        resolve({"k": f"${{file:{p}:key}}"}, providers).errors["k"][0].replace(os.path.normpath(p), p).replace(p, "PATH") for p in paths
    }
    of_dir = {
        resolve({"k": f"${{dir:{p.rpartition('/')[0]}:{p.rpartition('/')[2]}}}"}, providers).errors["k"][0].replace(p, "PATH")
        for p in paths
        if p.rpartition("/")[2] in ("zero", "none", "binary", "large", "pipe")
    }

    assert len(of_file) == 1
    assert len({text.partition(" cannot be resolved: ")[2] for text in of_dir}) == 1


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "No such file or directory"), ("a=\\u12", "malformed \\uXXXX escape"), ("a=1", "it has no such key")]
)
def test_what_is_wrong_with_a_file_is_one_line_of_the_log(tmp_path, content, reason):
    if content is not None:
        (tmp_path / "x").write_text(content)

    with capture_logs() as lines:
        resolve({"k": f"${{file:{tmp_path}/x:key}}"}, {"file": FileProvider()})

    assert [line["reason"].startswith(reason) for line in lines] == [True]


def test_a_link_out_of_the_allowed_folder_is_not_followed(providers, tmp_path):
    (tmp_path / "inside" / "link.properties").symlink_to("/etc/hostname")

    done = resolve({"k": f"${{file:{tmp_path}/inside/link.properties:a}}"}, providers)

    assert "outside" in done.errors["k"][0]


@pytest.mark.parametrize("name", ["secrets-other", "secrets/../secrets-other", "link"])
def test_a_folder_whose_name_begins_with_that_of_the_allowed_one_is_not_allowed(tmp_path, name):
    allowed, beside = tmp_path / "secrets", tmp_path / "secrets-other"
    for folder in (allowed, beside):
        folder.mkdir()
        (folder / "x.properties").write_text("key=value\n", encoding="utf-8")
    (tmp_path / "link").symlink_to(beside)
    path = f"{tmp_path}/{name}"
    providers = {"file": FileProvider((allowed,)), "dir": DirectoryProvider((allowed,))}

    done = resolve({"file": f"${{file:{path}/x.properties:key}}", "dir": f"${{dir:{path}:x.properties}}"}, providers)

    assert {key: "outside the provider's allowed.paths" in text for key, (text,) in done.errors.items()} == {"file": True, "dir": True}
    assert "value" not in str(done.values)
    inside = resolve({"file": f"${{file:{allowed}/x.properties:key}}", "dir": f"${{dir:{allowed}:x.properties}}"}, providers)
    assert inside.values == {"file": "value", "dir": "key=value\n"}


@pytest.mark.parametrize("part", ["${", "${a:", "${:", "$", "${a}", "${a:b:", "}", "${${a:}"])
def test_a_text_of_beginnings_takes_no_longer_than_it_is(part):  # number 9: the same trap as a pattern's
    text = part * (1_000_000 // len(part))
    began_s = time.monotonic()

    resolve({"k": text}, {})

    assert time.monotonic() - began_s < 5


def test_a_file_is_read_once_for_a_configuration_and_placeholders_have_a_number(tmp_path):  # number 4
    file = tmp_path / "x.properties"
    file.write_text("a=1\n")
    asked = []

    class Counted:
        def get(self, path, key):
            asked.append(key)
            return key

    same = resolve({"k": "${p:a}" * 10_000, "l": "${p:a}"}, {"p": Counted()})
    assert (len(asked), same.errors, same.values["l"]) == (1, {}, "a")
    many = resolve({"k": "".join(f"${{p:{number}}}" for number in range(10_000))}, {"p": Counted()})
    assert len(asked) == 1001
    assert [text.partition(": ")[2] for text in many.errors["k"]] == ["a configuration may have 1000 different placeholders"]


def test_a_few_placeholders_do_not_become_more_than_a_record_takes(tmp_path):  # number 4
    (tmp_path / "large").write_text("x" * 1_000_000)

    done = resolve({"k": f"${{dir:{tmp_path}:large}}" * 300}, {"dir": DirectoryProvider()})

    assert "2000000 characters together" in done.errors["k"][0]
    assert len(done.values["k"]) < 2_100_000


def test_text_that_only_looks_like_a_placeholder_stays(providers):
    text = {"a": "${topic}-x", "b": "$ {env:X}", "c": "${}", "d": "{env:DB_PASSWORD}"}

    assert resolve(text, providers).values == text


def test_providers_are_built_from_the_workers_properties():
    built = build_providers(
        ("f", "e"),
        {
            "config.providers.f.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
            "config.providers.f.param.allowed.paths": "/run/secrets, /etc/x",
            "config.providers.e.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
            "config.providers.e.param.allowlist.pattern": "A.*",
        },
    )

    assert [str(path) for path in built["f"].allowed_paths] == ["/run/secrets", "/etc/x"]
    assert [built["e"].allowlist.fullmatch(name) for name in ("AB", "BA")] == [True, False]


def test_a_provider_class_we_do_not_have_is_refused():
    with pytest.raises(ConfigError, match=r"Class com\.example\.Vault could not be found"):
        build_providers(("v",), {"config.providers.v.class": "com.example.Vault"})


@pytest.mark.parametrize(
    ("kind", "limit"),
    [("File", "param.allowed.paths"), ("Directory", "param.allowed.paths"), ("EnvVar", "param.allowlist.pattern")],
)
def test_a_provider_without_limits_is_warned_of_once_by_the_setting(kind, limit):  # number 4 of the worker's safety
    properties = {"config.providers.p.class": f"org.apache.kafka.common.config.provider.{kind}ConfigProvider"}
    setting = f"config.providers.p.{limit}"

    with capture_logs() as lines:
        assert set(build_providers(("p",), properties)) == {"p"}
    assert [(line["log_level"], line["setting"]) for line in lines] == [("warning", setting)]
    with capture_logs() as lines:
        build_providers(("p",), {**properties, setting: "/run/secrets"})
    assert lines == []


@pytest.mark.parametrize("kind", ["File", "Directory"])
@pytest.mark.parametrize("paths", [" ", ",", "/a,", "secrets", "./secrets,/a"])
def test_a_list_that_names_no_path_does_not_allow_all_of_them(kind, paths):  # number 4: an unset variable in a template makes such a list
    with pytest.raises(ConfigError, match=r"param\.allowed\.paths"):
        build_providers(("p",), {"config.providers.p.class": kind, "config.providers.p.param.allowed.paths": paths})


def test_a_pattern_of_nothing_allows_no_variable():  # number 4
    provider = build_providers(("p",), {"config.providers.p.class": "EnvVar", "config.providers.p.param.allowlist.pattern": ""})["p"]

    with pytest.raises(LookupError, match=r"allowlist\.pattern"):
        provider.get("", "PATH")


def test_a_key_may_have_colons_as_in_kafka(tmp_path):
    (tmp_path / "x.properties").write_text("a\\:b=value\n")

    assert resolve({"k": f"${{file:{tmp_path}/x.properties:a:b}}"}, {"file": FileProvider()}).values == {"k": "value"}


def test_a_list_of_no_paths_is_no_limit_and_a_path_is_one(tmp_path):  # number 4
    (tmp_path / "a.properties").write_text("k=value", encoding="utf-8")
    properties = {"config.providers.p.class": "FileConfigProvider"}

    free = build_providers(("p",), properties)["p"]
    limited = build_providers(("p",), {**properties, "config.providers.p.param.allowed.paths": str(tmp_path / "other")})["p"]

    assert free.get(str(tmp_path / "a.properties"), "k") == "value"
    with pytest.raises(LookupError, match=r"allowed\.paths"):
        limited.get(str(tmp_path / "a.properties"), "k")


def test_a_value_that_looks_like_a_placeholder_stays_text(tmp_path):  # number 4
    file = tmp_path / "a.properties"
    file.write_text("a=${env:SECRET}\nb=${file:" + f"{file}:c" + "}\nc=geheim\nd=${\ne=env:SECRET}\n", encoding="utf-8")
    providers = {"file": FileProvider((tmp_path,)), "env": EnvProvider(None, {"SECRET": "geheim"})}

    done = resolve({key: f"${{file:{file}:{key}}}" for key in "ab"} | {"de": f"${{file:{file}:d}}${{file:{file}:e}}"}, providers)

    assert done.errors == {}
    assert done.values == {"a": "${env:SECRET}", "b": f"${{file:{file}:c}}", "de": "${env:SECRET}"}
    assert resolve({"a": "${env:${env:SECRET}}"}, providers).errors


def test_there_are_no_providers_unless_they_are_named(tmp_path):  # number 4
    properties = {"config.providers.env.class": "EnvVarConfigProvider", "config.providers.file.class": "FileConfigProvider"}

    providers = build_providers((), properties)

    assert providers == {}
    done = resolve({"a": "${env:PATH}", "b": f"${{file:{tmp_path}/x:y}}", "c": "${dir:/:etc}"}, providers)
    assert set(done.errors) == {"a", "b", "c"}
    assert all("config.providers: none" in text for texts in done.errors.values() for text in texts)
