"""Reads the repository's pages and comments, and reports what in them leads nowhere. Each check takes the root of a tree, so that tests can hand it a broken one."""

import ast
import functools
import io
import os
import re
import textwrap
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("connect-worker", "spark-sink")
SOURCES = ("connect-worker/src/dblog", "spark-sink/src/dblog_sink", "docker", "tests")
"""Paths on a page begin at the page, at the root, or in one of these."""

CODE = (".py", ".pyx", ".pxi", ".pyi", ".h")
TEXT = (*CODE, ".md", ".toml", ".txt", ".ini", ".xml", ".java", ".avsc", "Makefile", ".importlinter")
WIDTH = 100
PARAGRAPH_LINES_MAX = 5

PRIVATE_PAGES = ("debezium", "kafka-connect", "delta-sink", "operations", "local-servers", "DESIGN", "GLOSSARY", "STYLE", "AUDIT")
"""Names of pages that readers of the repository do not have."""

_PRIVATE = re.compile(rf"(?<![\w/.-])(?:reference/)?({'|'.join(PRIVATE_PAGES)})\.md\b")
_BARE_SECTION = re.compile(r"\b(?:debezium|kafka-connect|delta-sink) contract\b|\bof the design\b|\(contract[ ,]")
_NUMBER = re.compile(r"(?<![\w.+-])[ID][1-9]\d?(?!\w|\.\w)")
_HEADING = re.compile(r"^#+ ([ID]\d+)\b", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_FILE = re.compile(r"^[\w./-]+\.(?:py|pyx|pxi|pyi|md|avsc)$")
_FOLDER = re.compile(r"^(?:connect-worker|spark-sink|docker|schemas|tests)(?:/[\w.-]+)+/?$")
_NAMED = re.compile(r"^([\w./-]+\.(?:py|pyx|pxi|pyi))::([\w.:]+)$")
_CITED_FILE = re.compile(r"(?<![\w./-])(?:[\w-]+/)*[\w-]+\.(?:py|pyx|pxi|pyi|avsc|md)\b")
_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")


@dataclass(frozen=True)
class Page:
    """One Markdown page of a tree."""

    root: Path
    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(self.root).as_posix()

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def prose(self) -> str:
        """Without fenced blocks, whose commands name files of the reader's machine."""
        return re.sub(r"^```.*?^```", "", self.text, flags=re.DOTALL | re.MULTILINE)


def files(root: Path) -> Iterator[Path]:
    """Every text file of the tree but for what is built."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            f for f in folders if f not in {"build", "__pycache__"} and not f.startswith(".") and not f.endswith(".egg-info")
        )
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(TEXT))


def pages(root: Path) -> list[Page]:
    return [Page(root, file) for file in files(root) if file.suffix == ".md"]


# ---- citations


def comments(file: Path) -> str:
    """What a file has for its readers: comments and docstrings of Python, else the whole text."""
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        return text
    return _prose_of_code(text)


@functools.cache
def _prose_of_code(code: str) -> str:
    prose = [token.string for token in tokenize.generate_tokens(io.StringIO(code).readline) if token.type == tokenize.COMMENT]
    prose += [
        node.value.value
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    return "\n".join(prose)


def cited(text: str) -> set[str]:
    """The numbers of invariants and decisions in a text."""
    return set(_NUMBER.findall(text))


def headings(root: Path, package: str) -> set[str]:
    """The numbers that the pages of a package explain."""
    return {
        number for page in sorted((root / package / "docs").glob("*.md")) for number in _HEADING.findall(page.read_text(encoding="utf-8"))
    }


def unexplained(root: Path) -> list[str]:
    """Citations of numbers without a heading: of a package on its own pages, elsewhere on those of either."""
    of_package = {package: headings(root, package) for package in PACKAGES}
    either = set().union(*of_package.values())
    found = []
    for file in files(root):
        name = file.relative_to(root).as_posix()
        known = next((of_package[package] for package in PACKAGES if name.startswith(f"{package}/")), either) or either
        if not cited(file.read_text(encoding="utf-8")) - known:
            continue  # to look for comments takes longer
        found += [f"{name}: {number}" for number in sorted(cited(comments(file)) - known)]
    return found


def private(root: Path) -> list[str]:
    """Citations of pages that are not here."""
    return [
        f"{file.relative_to(root).as_posix()}: {match[0]}"
        for file in files(root)
        for pattern in (_PRIVATE, _BARE_SECTION)
        for match in pattern.finditer(file.read_text(encoding="utf-8"))
    ]


PUBLIC_PAGES = frozenset({"CONFIGURATION.md"})
"""Pages of other projects that a comment may name: librdkafka's."""


def cited_files_unknown(root: Path) -> list[str]:
    """Files that comments and docstrings name, by the end of their path, and that are not there."""
    paths = (file.relative_to(root).parts for file in files(root))
    ends = {"/".join(parts[at:]) for parts in paths for at in range(len(parts))}

    def unknown(text: str) -> list[str]:
        return sorted({*_CITED_FILE.findall(text)} - PUBLIC_PAGES - ends)

    return [
        f"{file.relative_to(root).as_posix()}: {name}"
        for file in files(root)
        if file.suffix in CODE and unknown(file.read_text(encoding="utf-8"))  # to look for comments takes longer
        for name in unknown(comments(file))
    ]


# ---- links and names


def anchors(text: str) -> set[str]:
    """The fragments of a page's headings, as GitHub makes them."""
    return {
        re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.strip().lower())) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }


def broken_links(page: Page) -> list[str]:
    """Links to files, and to headings, that are not there."""
    found = []
    for target in _LINK.findall(page.prose):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        file = (page.path.parent / path).resolve() if path else page.path
        if not file.exists() or (fragment and fragment not in anchors(file.read_text(encoding="utf-8"))):
            found.append(f"{page.name}: {target}")
    return found


def located(page: Page, name: str) -> Path | None:
    """The file or folder that a name on a page means; None if there is none."""
    sources = sorted(SOURCES, key=lambda source: not page.name.startswith(source.split("/")[0]))  # the page's own package first
    bases = [page.path.parent, page.root, *(page.root / source for source in sources)]
    for base in bases:
        if (base / name).exists():
            return base / name
    if not _FILE.match(name):
        return None
    end = f"/{name}"
    return next((Path(path) for path in _paths(page.root) if path.endswith(end)), None)


@functools.cache
def _paths(root: Path) -> tuple[str, ...]:
    """The paths of a tree's files: pages name hundreds of them, and a walk takes longer than all else."""
    return tuple(file.as_posix() for file in files(root))


def spans(text: str) -> list[str]:
    """What stands in backticks."""
    return _SPAN.findall(text)


def unknown_files(page: Page) -> list[str]:
    """Names of files in backticks that no file has."""
    names = [span for span in spans(page.prose) if _FILE.match(span) or _FOLDER.match(span)]
    return [f"{page.name}: {name}" for name in names if not name.startswith("build/") and located(page, name) is None]


def defines(file: Path, dotted: str) -> bool:
    """Whether a file has this class, function or constant at its top level, or (``A.b``, ``A::b``) in a class of it."""
    names = re.split(r"\.|::", dotted)
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        return ".".join(names) in _defined(text)
    return all(re.search(rf"^\s*(?:cdef |cpdef )?(?:class|def|\w+) {re.escape(name)}\b", text, re.MULTILINE) for name in names)


@functools.cache
def _defined(code: str) -> frozenset[str]:
    """The names that a file defines at its top level, and with dots those in its classes. Pages name ten in one file, which is parsed once."""

    def of(body: list[ast.stmt], before: str) -> Iterator[str]:
        for node in body:
            yield from (before + name for name in _names(node))
            if isinstance(node, ast.ClassDef):
                yield from of(node.body, f"{before}{node.name}.")

    return frozenset(of(ast.parse(code).body, ""))


def _names(node: ast.stmt) -> set[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.Assign():
            return {target.id for target in node.targets if isinstance(target, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()


def unknown_names(page: Page) -> list[str]:
    """A file and a name, with ``::`` between them, in backticks, where the file has no such name."""
    found = []
    for span in spans(page.prose):
        if match := _NAMED.match(span):
            file = located(page, match[1])
            if file is None or not defines(file, match[2]):
                found.append(f"{page.name}: {span}")
    return found


# ---- the shape of pages


@dataclass(frozen=True)
class Table:
    """A table of a page: its heading cells, and its rows of cells."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(text: str) -> list[Table]:
    found = []
    for block in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        rows = [tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))) for line in block.splitlines()]
        found.append(Table(rows[0], tuple(rows[2:])))
    return found


def questions(page: Page) -> list[tuple[str, ...]]:
    """The rows of tables whose first column is headed "question"."""
    return [row for table in tables(page.text) if table.head[0].lower() == "question" for row in table.rows]


def unanswered(page: Page) -> list[str]:
    """Questions whose row names no file, or names one that is not there."""
    found = []
    for row in questions(page):
        named = [
            match[1] if (match := _NAMED.match(span)) else span for span in spans(" ".join(row)) if _FILE.match(span) or _NAMED.match(span)
        ]
        if not named or any(located(page, name) is None for name in named):
            found.append(f"{page.name}: {row[0]}")
    return found


def walls(page: Page) -> list[str]:
    """Paragraphs, list items and table cells that take more than five lines of a hundred signs."""
    blocks: list[str] = []
    open_block = False
    for line in page.prose.splitlines():
        is_row = line.lstrip().startswith("|")
        if not line.strip() or line.startswith("#") or is_row or (line.startswith("    ") and not open_block):
            open_block = False
            blocks += line.split("|") if is_row else []
        elif _ITEM.match(line) or not open_block:
            blocks.append(line)
            open_block = True
        else:
            blocks[-1] += " " + line.strip()
    return [f"{page.name}: {block.strip()[:60]}" for block in blocks if len(textwrap.wrap(block, WIDTH)) > PARAGRAPH_LINES_MAX]


def unproved(text: str) -> list[str]:
    """The invariants of a page whose section names no test."""
    parts = re.split(r"^## +(I\d+\b.*)$", text, flags=re.MULTILINE)
    return [
        heading
        for heading, section in zip(parts[1::2], parts[2::2], strict=True)
        if not any(s.startswith("tests/") for s in spans(section))
    ]
