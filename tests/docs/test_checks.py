"""Each check of the pages fails for what it is there to find: small trees, each with one thing broken."""

from pathlib import Path

import pytest
from docs.pages import (
    PRIVATE_PAGES,
    Page,
    broken_links,
    cited,
    cited_files_unknown,
    defines,
    pages,
    private,
    questions,
    unanswered,
    unexplained,
    unknown_files,
    unknown_names,
    unproved,
    walls,
)

DOCS = "connect-worker/docs/invariants.md"
CODE = "connect-worker/src/dblog/ledger.py"


def tree(root: Path, contents: dict[str, str]) -> Path:
    for name, text in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def page(root: Path, text: str, **others: str) -> Page:
    tree(root, {"README.md": text, **others})
    return next(page for page in pages(root) if page.name == "README.md")


@pytest.mark.parametrize(
    "code",
    ['"""Only the prefix counts. # I2"""', "x = 1  # I2", '"""The rule (D2)."""', 'class A:\n    x = 1\n    """At most so many. # I2"""'],
)
def test_a_number_that_no_page_explains_is_found_in_comments_and_docstrings(tmp_path: Path, code: str):
    tree(tmp_path, {DOCS: "## I1\n\ntext\n", CODE: code})

    assert unexplained(tmp_path) in ([f"{CODE}: I2"], [f"{CODE}: D2"])
    tree(tmp_path, {DOCS: "## I2\n\n## D2\n"})
    assert unexplained(tmp_path) == []


def test_a_number_in_a_value_is_no_citation(tmp_path: Path):
    tree(tmp_path, {DOCS: "## I1\n", CODE: 'cell = "I2"\nI3 = cell\n'})

    assert unexplained(tmp_path) == []


def test_a_package_explains_its_numbers_on_its_own_pages(tmp_path: Path):
    tree(
        tmp_path,
        {DOCS: "## I8\n", "spark-sink/docs/invariants.md": "## I9\n", "spark-sink/src/a.py": "# I8\n", "tests/test_a.py": "# I8 I9\n"},
    )

    assert unexplained(tmp_path) == ["spark-sink/src/a.py: I8"]


def test_numbers_are_read_between_other_signs_and_nowhere_else():
    assert cited("# I3 I4, (D8), D7's numbers; I1 to I9. D12.") == {"I3", "I4", "D8", "D7", "I1", "I9", "D12"}
    assert cited("DI3 D0 D123 I3a x-I3 D1.5 MI4") == set()


@pytest.mark.parametrize("text", ["debezium", "kafka-connect", "delta-sink", "operations", "local-servers", "DESIGN"])
def test_a_page_that_readers_do_not_have_is_found(tmp_path: Path, text: str):
    tree(tmp_path, {CODE: f"# rule source: {text}.md 1.3\n", "a/b.md": f"see ../{text}.mdx\n"})

    assert private(tmp_path) == [f"{CODE}: {text}.md"]


def test_a_file_that_a_comment_names_is_there(tmp_path: Path):
    here = "connect-worker/src/dblog/core/other.py"
    tree(tmp_path, {CODE: '"""As in core/other.py."""\nx = "core/none.py"\n', here: "# see leger.py and ledger.py\n"})

    assert cited_files_unknown(tmp_path) == [f"{here}: leger.py"]


def test_a_bare_section_of_such_a_page_is_found(tmp_path: Path):
    cited_so = f"{PRIVATE_PAGES[1]} contract"
    tree(tmp_path, {CODE: f"# rules ({cited_so}, section 4)"})

    assert private(tmp_path) == [f"{CODE}: {cited_so}"]


@pytest.mark.parametrize(
    ("link", "leads"),
    [("a.md", True), ("b.md", False), ("a.md#one-two", True), ("a.md#three", False), ("#here-we-are", True), ("https://x.y/z", True)],
)
def test_a_link_leads_to_a_file_and_a_heading(tmp_path: Path, link: str, leads: bool):
    one = page(tmp_path, f"# Here, we are\n\n[text]({link})\n", **{"a.md": "# One two\n"})

    assert broken_links(one) == ([] if leads else [f"README.md: {link}"])


@pytest.mark.parametrize(
    ("name", "known"),
    [("connect-worker/src/dblog/ledger.py", True), ("ledger.py", True), ("leger.py", False), ("tests/nothing", False), ("sink.yaml", True)],
)
def test_a_file_in_backticks_is_there(tmp_path: Path, name: str, known: bool):
    one = page(tmp_path, f"See `{name}`.\n", **{CODE: ""})

    assert unknown_files(one) == ([] if known else [f"README.md: {name}"])


@pytest.mark.parametrize(
    ("name", "known"), [("Ledger.take", True), ("Ledger", True), ("LIMIT", True), ("take", False), ("Ledger.give", False), ("Leger", False)]
)
def test_a_name_in_backticks_is_defined_in_its_file(tmp_path: Path, name: str, known: bool):
    one = page(tmp_path, f"See `ledger.py::{name}`.\n", **{CODE: "LIMIT = 3\n\n\nclass Ledger:\n    def take(self): ...\n"})

    assert unknown_names(one) == ([] if known else [f"README.md: ledger.py::{name}"])


def test_a_name_in_a_compiled_file_is_found_by_its_text(tmp_path: Path):
    tree(tmp_path, {"a.pxi": "cdef class Plan:\n    cdef int size(self):\n        return 1\n"})

    assert [name for name in ("Plan", "Plan.size", "Plain") if defines(tmp_path / "a.pxi", name)] == ["Plan", "Plan.size"]


def test_an_invariant_without_a_test_is_found():
    assert unproved("# Invariants\n\n`tests/a.py`\n\n## I1\n\n- `tests/b.py::test_x`\n\n## I2\n\ntext `core/c.py`\n") == ["I2"]


def test_a_question_without_a_file_that_is_there_is_found(tmp_path: Path):
    table = "| question | answer | where |\n|---|---|---|\n| a | b | `ledger.py` |\n| c | d | `leger.py::X` |\n| e | f | nowhere |\n"
    one = page(tmp_path, table + "\n| word | meaning |\n|---|---|\n| g | h |\n", **{CODE: ""})

    assert [row[0] for row in questions(one)] == ["a", "c", "e"]
    assert unanswered(one) == ["README.md: c", "README.md: e"]


@pytest.mark.parametrize("form", ["{}", "- {}", "3. {}", "| a | {} |", "- short\n- {}\n- short"])
def test_a_paragraph_an_item_and_a_cell_have_five_lines_at_most(tmp_path: Path, form: str):
    five, six = " ".join(["word"] * 98), " ".join(["word"] * 118)

    assert walls(page(tmp_path, form.format(five) + "\n")) == []
    assert len(walls(page(tmp_path, form.format(six) + "\n"))) == 1


def test_pictures_and_commands_are_no_paragraphs(tmp_path: Path):
    assert walls(page(tmp_path, "    ┌──┐ x\n" * 20 + "\n```bash\n" + "make\n" * 200 + "```\n")) == []
