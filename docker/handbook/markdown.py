"""Rewrites a page that is written for GitHub, so that the site shows the same. Pure.

The two read Markdown by different rules. GitHub (CommonMark) nests by the column where an item's
text begins and needs no blank line before a list; Python-Markdown nests by four columns and needs
one. A link to a file that the site does not have becomes text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

TAB = 4
_FENCE = re.compile(r"^\s*(```+|~~~+)")
_ITEM = re.compile(r"^(?P<indent> *)(?P<marker>(?:[-*+]|\d+[.)]) +)(?P<text>\S.*)$")
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")
_CODE = re.compile(r"(`+)(?:(?!\1).)+?\1(?!`)")


def slug(heading: str, separator: str = "-") -> str:
    """Return the fragment of a heading as GitHub makes it, whichever separator is asked for."""
    del separator  # Python-Markdown's own default differs from GitHub's
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.strip().lower()))


def nested(text: str) -> str:
    """Return the page with lists as Python-Markdown reads them."""
    return "\n".join(_nested(text.split("\n")))


def _nested(lines: list[str]) -> Iterator[str]:
    columns: list[int] = []
    """Columns in which the texts of the open items begin."""
    fence: str | None = None
    begun_by_item = False
    """True if the lines since the last blank one begin with an item."""
    before = ""
    for line in lines:
        if fence is not None:
            yield _moved(line, columns)
            if line.strip().startswith(fence):
                fence = None
            before = line
            continue
        indent = len(line) - len(line.lstrip(" "))
        if not line.strip():
            yield ""
            before = line
            continue
        item = _ITEM.match(line)
        starts_block = not before.strip() or item is not None or _FENCE.match(line) is not None or line.startswith("#")
        if starts_block:
            while columns and indent < columns[-1]:
                columns.pop()
        is_item = item is not None and indent < (columns[-1] if columns else 0) + TAB
        if item is not None and is_item:
            if not before.strip():
                begun_by_item = True
            elif not begun_by_item:
                yield ""
                begun_by_item = True
            yield " " * (TAB * len(columns)) + item["marker"].strip() + " " + item["text"]
            columns.append(indent + len(item["marker"]))
        else:
            if not before.strip():
                begun_by_item = False
            if columns and not starts_block:
                yield " " * (TAB * len(columns)) + line.strip()
            else:
                yield _moved(line, columns)
            if match := _FENCE.match(line):
                fence = match[1]
        before = line


def _moved(line: str, columns: list[int]) -> str:
    if not line.strip() or not columns:
        return line
    indent = len(line) - len(line.lstrip(" "))
    return " " * (TAB * len(columns) + max(0, indent - columns[-1])) + line.lstrip(" ")


def with_plain_pipes(text: str) -> str:
    r"""Return the page with `\|` in a table's code as `|`, which GitHub shows and Python-Markdown does not."""
    return "\n".join(
        _CODE.sub(lambda code: code[0].replace("\\|", "|"), line) if line.lstrip().startswith("|") else line for line in text.split("\n")
    )


def with_links(text: str, change: Callable[[str], str | None]) -> str:
    """Return the page with each link's target changed. A link whose new target is None becomes its text.

    Code is left as it is.
    """

    def changed(link: re.Match[str]) -> str:
        target = change(link["target"])
        return link["text"] if target is None else f"{link['image']}[{link['text']}]({target})"

    out: list[str] = []
    prose: list[str] = []
    fence: str | None = None

    def end_prose() -> None:
        if prose:
            out.append(_LINK.sub(changed, "\n".join(prose)))
            prose.clear()

    for line in text.split("\n"):
        match = _FENCE.match(line)
        if fence is None and match is None:
            prose.append(line)
            continue
        end_prose()
        out.append(line)
        if match is not None:
            fence = match[1] if fence is None else None
    end_prose()
    return "\n".join(out)
