"""The repository's pages and comments lead somewhere: numbers, links, files, tests and functions that they name are there."""

import pytest
from docs.pages import (
    PACKAGES,
    ROOT,
    Page,
    broken_links,
    cited_files_unknown,
    files,
    headings,
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

INVARIANTS = {f"I{number}" for number in range(1, 10)}
DECISIONS = {f"D{number}" for number in range(1, 17)}
QUESTIONS_MIN = 12

PAGES = list(pages(ROOT))
WELL_SET = [
    page
    for page in PAGES
    if page.name.endswith("ARCHITECTURE.md")
    or "docs/" in page.name
    or page.name in {"README.md", "connect-worker/README.md", "schemas/README.md", "spark-sink/README.md", "helm/README.md"}
]
ARCHITECTURE = [page for page in PAGES if page.name.endswith("/ARCHITECTURE.md")]

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def test_every_cited_number_has_a_heading():
    assert unexplained(ROOT) == []


def test_files_that_comments_name_are_there():
    assert cited_files_unknown(ROOT) == []


def test_no_page_is_cited_that_readers_do_not_have():
    assert private(ROOT) == []


def test_the_worker_explains_every_invariant_and_decision():
    assert headings(ROOT, "connect-worker") == INVARIANTS | DECISIONS


@each_page
def test_links_lead_to_a_file_and_its_heading(page: Page):
    assert broken_links(page) == []


@each_page
def test_files_that_a_page_names_are_there(page: Page):
    assert unknown_files(page) == []


@each_page
def test_functions_and_tests_that_a_page_names_are_in_their_files(page: Page):
    assert unknown_names(page) == []


@pytest.mark.parametrize("package", [package for package in PACKAGES if (ROOT / package / "docs" / "invariants.md").exists()])
def test_every_invariant_names_a_test_that_proves_it(package: str):
    assert unproved((ROOT / package / "docs" / "invariants.md").read_text(encoding="utf-8")) == []


def test_the_questions_of_a_newcomer_are_answered_by_files_that_are_there():
    assert [question for page in ARCHITECTURE for question in unanswered(page)] == []
    assert sum(len(questions(page)) for page in ARCHITECTURE) >= QUESTIONS_MIN


@pytest.mark.parametrize("page", WELL_SET, ids=lambda page: page.name)
def test_no_paragraph_is_a_wall(page: Page):
    assert walls(page) == []


def test_the_whole_tree_is_looked_at():
    names = {file.relative_to(ROOT).parts[0] for file in files(ROOT)}

    assert {"connect-worker", "spark-sink", "docker", "schemas", "tests", "README.md", "Makefile"} <= names
