"""The rules about the project's own code: each finds a bad example and leaves a good one, and the tree keeps them all."""

import pytest
from audit.audit import rules
from audit.code_rules import RULES
from audit.scan import broken, listed
from audit.syntax import Source

EXAMPLES = {
    "redirects": (
        ["import urllib.request\nurllib.request.urlopen(u)", "import urllib.request as r\nr.build_opener(r.ProxyHandler({}))", "import requests\nrequests.get(u)",
         "import httpx\nhttpx.Client(follow_redirects=True)", "import urllib3\nurllib3.PoolManager()"],
        ["import urllib.request\nurllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects)", "import httpx\nhttpx.Client(trust_env=False)",
         "def f(requests):\n    return requests.get(1)"],
    ),
    "environment-proxies": (
        ["import httpx\nhttpx.AsyncClient()", "from urllib.request import build_opener\nbuild_opener(_NoRedirects)", "import httpx\nhttpx.get(u)"],
        ["import httpx\nhttpx.AsyncClient(trust_env=False)", "import urllib.request\nurllib.request.build_opener(urllib.request.ProxyHandler({}))"],
    ),
    "shells": (
        ["import subprocess\nsubprocess.run(c, shell=True)", "from os import system\nsystem(c)", "import asyncio\nasyncio.create_subprocess_shell(c)"],
        ["import subprocess\nsubprocess.run([c], shell=False)", "import subprocess\nsubprocess.run(['ls', name])"],
    ),
    "yaml-objects": (
        ["import yaml\nyaml.load(t)", "import yaml\nyaml.load(t, yaml.Loader)", "import yaml\nyaml.full_load(t)"],
        ["import yaml\nyaml.safe_load(t)", "import yaml\nyaml.load(t, Loader=yaml.BaseLoader)"],
    ),
    "code-from-data": (
        ["eval(t)", "import pickle\npickle.loads(b)", "from marshal import loads\nloads(b)", "import importlib\nimportlib.import_module(name)",
         "import ctypes\nctypes.CDLL(path)"],
        ["import re\nre.compile('a')", "import ctypes\nctypes.CDLL(None)", "import importlib\nimportlib.import_module('dblog.a')", "import ast\nast.literal_eval(t)"],
    ),
    "files-by-name": (
        ["open(name)", "from pathlib import Path\nPath(name).read_bytes()", "import os\nos.open(p, os.O_RDONLY)", "path.open('rb')", "path.open(encoding='utf-8')"],
        ["open('/proc/self/statm')", "from pathlib import Path\nPath('/etc/resolv.conf').read_text()", "_BOOT.read_text()", "NamedFile(a, b, c).read()",
         "source.open(position)"],
    ),
    "clients-of-hosts": (
        ["import socket\nsocket.create_connection((h, 1))", "import psycopg2\npsycopg2.connect(host=h)", "from confluent_kafka import Producer\nProducer(s)",
         "import httpx\nhttpx.Client()", "sock.connect((h, 1))", "GuardedConnection(host=h)"],
        ["import socket\nsocket.socket(fileno=3)", "dialect.connect(settings)"],
    ),
    "unquoted-sql": (
        ["q(f'SELECT * FROM {table}')", "q('DROP TABLE %s' % table)", "q('SET x = {}'.format(v))", "q('SELECT ' + columns)",
         "def f(t):\n    name = t.name\n    q(f'ALTER TABLE {name}')"],
        ["q(f'SELECT * FROM {quote_table(table)} LIMIT {int(n)}')", "q(f'SET a = {LIMIT}')", "q(f'SET a = {limit_ms}')", "m = f'a table is {table}'",
         "def f(t):\n    name = quote(t.name)\n    q(f'ALTER TABLE {name}')", "q(f'GRANT A ({\", \".join(map(quote, columns))})')", "q('SELECT %s', (v,))"],
    ),
    "compared-secrets": (
        ["given == password", "self.token != header.token", "digest(a) == b"],
        ["hmac.compare_digest(given, password)", "kind == 'password'", "token is None", "count == given"],
    ),
    "unpacked-archives": (
        ["import tarfile\ntarfile.open(p).extractall(d)", "with zipfile.ZipFile(p) as archive:\n    archive.extract(name)", "import shutil\nshutil.unpack_archive(p)"],
        ["tar.extractall(d, filter='data')", "zipfile.ZipFile(p).read(name)"],
    ),
    "guessable-names": (["import tempfile\ntempfile.mktemp()"], ["import tempfile\ntempfile.mkstemp()"]),
    "unverified-tls": (
        ["import httpx\nhttpx.Client(verify=False)", "context.check_hostname = False", "import ssl\ncontext.verify_mode = ssl.CERT_NONE",
         "import ssl\nssl._create_unverified_context()", "import ssl\nssl.SSLContext()"],
        ["context.check_hostname = True", "import ssl\nssl.create_default_context()", "import ssl\nmode is not ssl.CERT_NONE", "import ssl\nssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)"],
    ),
    "unbounded-answers": (
        ["with opener.open(u) as answer:\n    answer.read()", "try:\n    pass\nexcept urllib.error.HTTPError as e:\n    e.read()",
         "import httpx\nclient = httpx.Client()\nclient.get(u)", "urlopen(u).read()"],
        ["with opener.open(u) as answer:\n    answer.read(LIMIT)", "with open(p) as file:\n    file.read()", "with path.open('rb') as file:\n    file.read()",
         "import httpx\nclient = httpx.Client()\nwith client.stream('GET', u) as a:\n    pass"],
    ),
    "believed-proxies": (
        ["import uvicorn\nuvicorn.run(app)", "import uvicorn\nuvicorn.Config(app, proxy_headers=True)"],
        ["import uvicorn\nuvicorn.Config(app, proxy_headers=False)", "import uvicorn\nuvicorn.Config(app, proxy_headers=bool(p), forwarded_allow_ips=p)"],
    ),
    "quoted-driver-errors": (
        ["try:\n    q()\nexcept psycopg2.Error as e:\n    raise X(f'failed: {e}')", "try:\n    q()\nexcept (OSError, pymysql.err.Error) as e:\n    _log.warning('x', reason=e)",
         "try:\n    q()\nexcept _libpq.ServerError as e:\n    text = str(e)"],
        ["try:\n    q()\nexcept psycopg2.Error as e:\n    raise translate(e, settings) from e", "try:\n    q()\nexcept OSError as e:\n    raise X(f'failed: {e}')"],
    ),
    "logged-traces": (["_log.exception('x')", "log.error('x', exc_info=e)"], ["_log.error('x', reason=kind_of(e))", "work.exception()", "log.error('x', exc_info=False)"]),
    "patterns-of-others": (
        ["import re\nre.compile(given)", "from re import match\nmatch(pattern, text)", "import re\nre.search(f'{given}$', text)"],
        ["import re\nre.compile('a+')", "import re\nre.compile(_NAME + r'\\d')", "import re\nre.compile(re.escape(given) + '$')", "pattern.match(text)"],
    ),
}  # fmt: skip
"""For each rule texts that it finds, and texts that it leaves."""


def found(rule: str, text: str) -> int:
    (one,) = [known for known in RULES if known.name == rule]
    return len(list(one.find(Source("connect-worker/src/dblog/a.py", text))))


@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_a_rule_finds_what_is_bad_and_leaves_what_is_good(rule):
    bad, good = EXAMPLES[rule]

    assert [text for text in bad if not found(rule, text)] == []
    assert [text for text in good if found(rule, text)] == []


def test_the_code_keeps_the_rules_but_where_a_line_of_the_list_says_why():  # number 42 of the code's safety
    assert list(rules()) == []


def test_a_line_of_the_list_excuses_a_function_and_no_other_and_one_that_excuses_nothing_is_found():
    files = [Source("connect-worker/src/a.py", "def one():\n    open(name)\n\ndef other():\n    open(name)\n")]
    text = "# why\nfiles-by-name connect-worker/src/a.py::one: a reason that is long enough\nshells docker/b.py: a reason that is long enough\n"

    other, unused = broken(files, listed(text))

    assert other.startswith("connect-worker/src/a.py:5: files-by-name: ")
    assert unused.endswith(":3: shells docker/b.py excuses nothing; take the line out")


@pytest.mark.parametrize("line", ["shells docker/b.py", "shells docker/b.py: short", "nothing docker/b.py: a reason that is long enough"])
def test_a_line_without_a_reason_or_of_no_rule_is_refused(line):
    with pytest.raises(ValueError, match="code_exceptions.txt:1"):
        listed(line)


def test_a_rule_for_the_programs_alone_leaves_what_builds_them():
    text = "import urllib.request\nurllib.request.urlopen(u)\n"

    assert list(broken([Source("docker/stack/a.py", text)], {})) == []
    assert len(list(broken([Source("spark-sink/src/dblog_sink/a.py", text)], {}))) == 2  # and a client of a host
