"""The page's files: those from npm are what their lock says, and browsers keep them for good."""

import gzip
import hashlib
import json

from dblog.page.assets import FOLDER

LOCK = json.loads((FOLDER / "vendor" / "lock.json").read_text())


def test_the_files_from_npm_are_those_of_the_lock_and_each_has_its_licence():
    files = {name: file["sha256"] for package in LOCK["packages"] for name, file in package["files"].items()}

    assert {path.name for path in (FOLDER / "vendor").iterdir()} == {*files, "lock.json"}
    for name, digest in files.items():
        assert hashlib.sha256((FOLDER / "vendor" / name).read_bytes()).hexdigest() == digest, name
    for package in LOCK["packages"]:
        assert package["integrity"].startswith("sha512-")
        assert any(name.endswith(".LICENSE") for name in package["files"])


def test_an_address_holds_the_files_digest_and_is_kept_for_good(page):
    text = page.get("/ui").text
    url = next(part for part in text.split('"') if part.startswith("/ui/assets/page.") and part.endswith(".js"))

    plain, packed = page.get(url, headers={"Accept-Encoding": "identity"}), page.get(url)

    assert plain.content == (FOLDER / "page.js").read_bytes() == packed.content
    assert packed.headers["content-encoding"] == "gzip"
    assert "immutable" in plain.headers["cache-control"]
    assert plain.headers["content-type"] == "text/javascript; charset=utf-8"
    assert hashlib.sha256(plain.content).hexdigest()[:12] in url
    assert len(gzip.compress(plain.content)) < 8192


def test_a_page_of_another_version_gets_the_file_of_this_one_and_does_not_keep_it(page):
    other = page.get("/ui/assets/page.000000000000.css")

    assert (other.status_code, other.headers["cache-control"]) == (200, "no-cache")
    assert page.get("/ui/assets/..%2Froutes.py").status_code == 404
    assert page.get("/ui/assets/lock.json").status_code == 404
