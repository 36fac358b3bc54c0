"""The documentation as a site: it builds, names every page in its menu, and leads somewhere with every link."""

import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest
from docs.pages import ROOT, pages
from handbook.__main__ import SITE, build
from handbook.check import problems
from handbook.gather import for_site, pages_of_map
from handbook.made import DISK_SEARCH, FOLDER, OPENAPI
from handbook.markdown import nested, slug
from markdown_it import MarkdownIt

REMEDY = "name the page in docs/mkdocs.yml, under the part where its reader looks for it"
BLOCKS = ("h1", "h2", "h3", "h4", "li", "ol", "ul", "td", "th", "pre")


@pytest.fixture(scope="module")
def site() -> Path:
    assert build() == 0, "make docs shows what is wrong"
    return SITE


def test_every_page_is_in_the_menu():
    named = [path for path in pages_of_map() if not path.startswith(f"{FOLDER}/")]

    assert sorted({page.name for page in pages(ROOT)} - set(named)) == [], REMEDY
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_the_site_builds_and_has_its_pages(site: Path):
    built = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}

    assert {
        re.sub(r"(?:README)?\.md$", lambda end: "index.html" if "README" in end[0] else ".html", path) for path in pages_of_map()
    } <= built


def test_the_search_finds_an_option_and_a_heading_without_a_server(site: Path):
    index = json.loads((site / "search" / "search_index.json").read_text())

    texts = " ".join(entry["text"] for entry in index["docs"])
    assert "dblog.chunk.rows" in texts
    assert "quarantine.rows.max" in texts
    assert "GET /connectors" in {entry["title"] for entry in index["docs"]}
    # A page that is opened from the disk may fetch no JSON and start no worker.
    assert json.loads((site / "search" / "search_index.js").read_text().removeprefix("var __index = ")) == index
    assert f'<script src="{DISK_SEARCH}">' in (site / "index.html").read_text()


class Blocks(HTMLParser):
    """Counts the blocks of a page's article."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()
        self.inside = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.inside |= tag == "article"
        if self.inside and tag in BLOCKS:
            self.found[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self.inside = False


def blocks(html: str) -> Counter[str]:
    counted = Blocks()
    counted.feed(html)
    return counted.found


def test_pages_have_the_same_lists_tables_and_headings_as_on_github(site: Path):
    github = MarkdownIt("commonmark").enable("table")
    for path in pages_of_map():
        if path.startswith(f"{FOLDER}/"):
            continue
        expected = blocks(f"<article>{github.render((ROOT / path).read_text(encoding='utf-8'))}</article>")
        page = re.sub(r"(?:README)?\.md$", lambda end: "index.html" if "README" in end[0] else ".html", path)
        shown = blocks((site / page).read_text(encoding="utf-8"))
        assert shown == expected, path


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("text\n- a\n- b", "text\n\n- a\n- b"),
        ("- a\n  - b\n    - c\n- d", "- a\n    - b\n        - c\n- d"),
        ("1. a\n   more\n\n   next\n2. b", "1. a\n    more\n\n    next\n\n2. b"),
        ("- a\n\n  | x |\n  |---|\n  | y |\n\n  end\n- b", "- a\n\n    | x |\n    |---|\n    | y |\n\n    end\n\n- b"),
        ("```\n- a\n  - b\n```", "```\n- a\n  - b\n```"),
        ("- a\n\n  ```sh\n  make\n  ```\n", "- a\n\n    ```sh\n    make\n    ```\n"),
        ("- a\n\ntext\n\n    code - x", "- a\n\ntext\n\n    code - x"),
    ],
)
def test_lists_are_nested_as_the_site_reads_them(written: str, read: str):
    assert nested(written) == read


def test_a_link_to_a_page_stays_and_one_to_code_becomes_its_text():
    pages_of_site = frozenset({"README.md", "docs/a.md", "helm/README.md"})
    shown: set[str] = set()
    text = "[a](../docs/a.md#b-c), [h](../helm/), [code\nhere](../Makefile), [v](../helm/values.yaml), [w](https://x.example)"

    made = for_site(text, "docs/b.md", pages=pages_of_site, root=ROOT, shown=shown)

    assert made == "[a](a.md#b-c), [h](../helm/README.md), code\nhere, [v](../helm/values.yaml), [w](https://x.example)"
    assert shown == {"helm/values.yaml"}


def test_fragments_are_those_of_github():
    assert [slug(text) for text in ("Where to add what", "`dblog.x`, and *more*", "I1: a  b")] == [
        "where-to-add-what",
        "dblogx-and-more",
        "i1-a--b",
    ]


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ('<a href="b.html#there">x</a>', []),
        ('<a href="c.html">x</a>', ["a.html: no file c.html"]),
        ('<a href="b.html#elsewhere">x</a>', ["a.html: no heading b.html#elsewhere"]),
        ('<a href="https://x.example">x</a><link rel="canonical" href="https://x.example">', []),
        ('<img src="https://x.example/a.png">', ["a.html: fetches https://x.example/a.png"]),
        ('<script src="//x.example/a.js"></script>', ["a.html: fetches //x.example/a.js"]),
        ("<article><p>text\n- item</p><code>- code</code></article>", ["a.html: still Markdown: - i"]),
        ("<article><p>see [text](b.md)</p></article>", ["a.html: still Markdown: ](b.md)"]),
    ],
)
def test_the_check_of_the_built_site_finds(tmp_path: Path, html: str, found: list[str]):
    (tmp_path / "a.html").write_text(html)
    (tmp_path / "b.html").write_text('<h2 id="there">b</h2>')

    assert [line[: len(expected)] for line, expected in zip(problems(tmp_path), found, strict=True)] == found


def test_the_check_finds_fonts_of_a_style_sheet_from_elsewhere(tmp_path: Path):
    (tmp_path / "a.css").write_text(
        '@font-face { src: url("https://fonts.example/a.woff2"); } p { background: url(data:image/png;base64,x) }'
    )

    assert problems(tmp_path) == ["a.css: fetches https://fonts.example/a.woff2"]


# ---- pictures

PICTURES = sorted((ROOT / "docs" / "pictures").glob("*.svg"))
CONTRAST_MIN = 4.5
"""WCAG 2.2, success criterion 1.4.3: text of ordinary size."""


def luminance(colour: str) -> float:
    """WCAG's relative luminance of #rrggbb."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def fills(css: str) -> dict[str, str]:
    """The fill of each selector."""
    return {
        selector.strip(): found[1]
        for selectors, body in re.findall(r"([^{}]+)\{([^{}]*)\}", css)
        for selector in selectors.split(",")
        if (found := re.search(r"fill: (#[0-9a-f]{6})", body))
    }


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_can_be_read_in_the_light_and_in_the_dark_and_aloud(picture: Path):
    text = picture.read_text(encoding="utf-8")
    style = text[text.index("<style>") + len("<style>") : text.index("</style>")]
    light, _, dark = style.partition("@media (prefers-color-scheme: dark) {")

    for palette in (fills(light), {**fills(light), **fills(dark)}):
        letters = [palette["text"], palette[".small"]]
        grounds = [palette[name] for name in (".card", ".box", ".warm", ".good", ".out")]
        assert min(contrast(letter, ground) for letter in letters for ground in grounds) >= CONTRAST_MIN
    assert "<title" in text
    assert "<desc" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_there_is_a_picture_of_windows_of_the_order_and_of_the_guards():
    assert {picture.stem for picture in PICTURES} >= {"overview", "window", "order", "guards"}


# ---- the REST description


def operations_of_the_application() -> set[str]:
    from dblog.config.properties import parse_properties
    from dblog.config.worker import read_worker_config
    from dblog.rest.api import Services
    from dblog.rest.app import Part, build_app
    from dblog.rest.identity import Identity
    from dblog.rest.limits import Limits
    from dblog.rest.schemas import registry_routes
    from dblog.rest.waiting import Waiting
    from starlette.routing import Route

    worker = read_worker_config(
        parse_properties(
            "bootstrap.servers=a:1\ngroup.id=g\nkey.converter=JsonConverter\nvalue.converter=JsonConverter\n"
            "config.storage.topic=c\noffset.storage.topic=o\nstatus.storage.topic=s\n"
        )
    )
    services = Services(worker=worker, herder=SimpleNamespace(), validator=None, checks=None, metrics=bytes, commit="")
    app = build_app(
        services,
        waiting=Waiting(),
        part=Part.ALL,
        registry_routes=registry_routes(None),
        identity=Identity(worker.settings),
        limits=Limits.of(worker.settings),
    )
    routes = [route for route in app.routes if isinstance(route, Route)]
    return {f"{method} {route.path}" for route in routes for method in (route.methods or set()) - {"HEAD"}}


def test_the_rest_description_has_the_operations_of_the_application_and_no_others(site: Path):
    document = json.loads((site / OPENAPI).read_text())
    described = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}

    assert described == operations_of_the_application()


def test_the_rest_description_is_whole(site: Path):
    document = json.loads((site / OPENAPI).read_text())
    operations = [(path, operation) for path, methods in document["paths"].items() for operation in methods.values()]

    assert len({operation["operationId"] for _, operation in operations}) == len(operations)
    for path, operation in operations:
        assert {one["name"] for one in operation["parameters"] if one["in"] == "path"} == set(re.findall(r"\{(\w+)\}", path))
        assert operation["summary"].endswith(".")
        assert operation["responses"]
    restart = document["paths"]["/connectors/{connector}/restart"]["post"]
    assert {one["name"] for one in restart["parameters"]} == {"connector", "includeTasks", "onlyFailed"}
    assert restart["x-role"] == "operator"
    assert not restart["x-readonly-listener"]


def test_a_resource_without_a_description_ends_the_build(monkeypatch: pytest.MonkeyPatch):
    from handbook import rest

    monkeypatch.delitem(rest.OPERATIONS, "GET /connectors")

    with pytest.raises(ValueError, match="describes other operations than the worker has: GET /connectors"):
        rest.document()
