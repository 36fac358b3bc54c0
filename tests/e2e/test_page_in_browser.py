"""The web page in a real Chromium, over a real worker, broker and database: create a connector from a paste, watch and steer a dump, read why something fails,
restart the worker under the open page. No script error, nothing that axe-core finds, and no name of a table that is more than text.
"""

import json
import sys
from pathlib import Path

import pytest
from support.browser import axe, browser, playwright_folder
from support.servers import execute, new_database, required
from support.worker import Worker, until

PICTURES = Path(__file__).parents[2] / "build" / "page"
SIZES = (390, 1280, 2560)
HOSTILE = "<script>alert(1)</script>"
ROWS = 3_000
VIEWS = (
    "",
    "/connectors/shop",
    *(
        f"/connectors/shop/{rest}"
        for rest in ("tables", "dumps", "dumps/initial", "offsets", "offsets/edit", "config", "config/edit", "config/history")
    ),
    *("/connectors/shop/events", "/connectors/shop/log", "/sinks"),
    "/new",
)
LIMIT_MS = 120_000


@pytest.fixture(scope="module")
def chromium():
    """A browser, driven by Playwright, and the text of axe-core."""
    with required():
        program, packages, rules = browser(), playwright_folder(), axe()
    sys.path.append(str(packages))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield started, rules
        started.close()


@pytest.fixture(scope="module")
def worker(kafka, servers_folder):
    with Worker(
        kafka, servers_folder, "browser", tasks="real", **{"offset.flush.interval.ms": "500", "session.timeout.ms": "45000"}
    ) as started:
        yield started


class Browsing:
    """One window, which notes every error of a script."""

    def __init__(self, chromium, url, **options):
        started, self.rules = chromium
        self.context = started.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.url = url
        self.errors = []
        self.page = self.context.new_page()
        self.page.set_default_timeout(LIMIT_MS)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("dialog", lambda dialog: self.errors.append(f"a dialog: {dialog.message}"))

    def open(self, path):
        self.page.goto(f"{self.url}/ui{path}")
        self.page.wait_for_selector("main")

    def press(self, name, *, within="main", exact=True):
        self.page.locator(within).get_by_role("button", name=name, exact=exact).click()

    def confirm(self, name):
        """Press a button, and the same one in the dialog that asks."""
        self.press(name)
        self.page.wait_for_selector("dialog[open]")
        self.page.locator("dialog[open] button[type=submit]").click()
        self.page.wait_for_selector("dialog", state="detached")

    def shows(self, text, *, where="#live"):
        until(lambda: text in self.text(where), what=lambda: f"{text!r} in {self.text(where)!r}", pause_s=0.2)

    def text(self, where="#live"):
        return self.page.locator(where).inner_text()

    def violations(self):
        self.page.evaluate(self.rules)
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        return [(each["id"], node["target"]) for each in found for node in each["nodes"]]

    def close(self):
        self.context.close()


def paste(mariadb, kafka, database, **changes):
    login = mariadb.login
    config = {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.hostname": login["host"],
        "database.port": str(login["port"]),
        "database.user": login["user"],
        "database.password": login["password"],
        "database.server.id": "615099",
        "topic.prefix": "shop",
        "database.include.list": database,
        "schema.history.internal.kafka.bootstrap.servers": kafka.bootstrap,
        "schema.history.internal.kafka.topic": "shop-history",
        "dblog.watermark.table": f"{database}_marks.watermark",
        **changes,
    }
    return json.dumps({"name": "shop", "config": config})


def test_a_connector_is_created_dumped_steered_and_outlives_its_worker_in_a_browser(chromium, worker, mariadb, kafka):
    database = new_database(mariadb, "page")
    execute(mariadb, f"CREATE TABLE `{database}`.orders (id INT PRIMARY KEY, note VARCHAR(20))")
    execute(mariadb, f"INSERT INTO `{database}`.orders SELECT seq, 'a' FROM `{database}`.seq_1_to_{ROWS}")
    execute(mariadb, f"CREATE TABLE `{database}`.`{HOSTILE}` (id INT PRIMARY KEY)", f"INSERT INTO `{database}`.`{HOSTILE}` VALUES (1)")
    seen = Browsing(chromium, worker.url)
    page = seen.page

    # The first look, and a paste with a mistake: the answer stands beside the key, and what was typed is still there.
    seen.open("")
    assert "No connector yet" in page.inner_text("main")
    page.get_by_role("link", name="Create the first connector").click()
    wrong = paste(mariadb, kafka, database, **{"database.password": "wrong-password"})
    page.fill("#text", wrong)
    seen.press("Check and create")
    seen.shows("to mend", where="#checked")
    assert "the password is wrong" in page.inner_text("#checked")
    assert "wrong-password" not in page.inner_html("#checked")
    assert page.input_value("#text") == wrong

    page.fill("#text", paste(mariadb, kafka, database))
    seen.press("Check and create")
    page.wait_for_url("**/ui/connectors/shop")
    worker.wait_for("shop", "RUNNING", "RUNNING")
    page.get_by_role("link", name="Dumps", exact=True).click()
    seen.shows("DONE")

    # Another dump, slow enough to be steered.
    page.fill("#tables", f"{database}\\.orders")
    page.fill("#chunk_rows", "10")
    page.fill("#delay_ms", "3000")
    seen.press("Start the dump")
    page.wait_for_url("**/dumps/*")
    seen.shows("RUNNING")
    seen.press("Pause", within=".card >> nth=0")
    seen.shows("PAUSED")
    page.locator("#resume").click()
    page.locator("#pause").wait_for()
    page.fill("#delay_ms", "0")
    page.fill("#chunk_rows", "5000")
    seen.press("Change the speed")
    seen.shows("DONE")

    # A hostile name is text, searched on the server.
    seen.open("/connectors/shop/tables")
    page.fill("#q", "SCRIPT")
    until(lambda: page.locator("#live tbody tr").count() == 1, what=seen.text, pause_s=0.2)
    assert "alert" in seen.text()
    page.fill("#q", "<script>nothing</script>")
    seen.shows("No table matches")

    # Pause with its effect in numbers, and resume.
    seen.open("/connectors/shop")
    seen.press("Pause")
    page.wait_for_selector("dialog[open]")
    assert "1 task reads nothing more" in page.inner_text("dialog")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    seen.confirm("Pause")
    seen.shows("PAUSED")
    page.reload()
    seen.confirm("Resume")
    until(lambda: "PAUSED" not in seen.text(), what=seen.text, pause_s=0.2)

    # The worker is restarted under the open page, which says so and goes on by itself.
    assert seen.errors == []
    worker.process.kill()
    seen.shows("The worker does not answer", where="#lost")
    worker.process.start()
    page.wait_for_selector("#lost", state="hidden")
    seen.shows("The worker is back", where="#messages")
    worker.wait_for("shop", "RUNNING", "RUNNING")
    seen.errors.clear()  # requests of the time without a worker

    for path in VIEWS:
        seen.open(path)
        assert seen.violations() == [], path
    assert seen.errors == []
    seen.close()


@pytest.mark.long
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_fits_every_width_in_both_themes_and_axe_finds_nothing(chromium, worker, mariadb, kafka, theme):
    if worker.status("shop") is None:
        database = new_database(mariadb, "page")
        execute(mariadb, f"CREATE TABLE `{database}`.orders (id INT PRIMARY KEY)", f"INSERT INTO `{database}`.orders VALUES (1)")
        created = worker.client.post("/connectors", json=json.loads(paste(mariadb, kafka, database)))
        assert created.status_code == 201, created.text
    worker.wait_for("shop", "RUNNING", "RUNNING")
    until(lambda: worker.client.get("/connectors/shop/dumps/initial").json().get("status", {}).get("state") == "DONE")
    PICTURES.mkdir(parents=True, exist_ok=True)

    for width in SIZES:
        seen = Browsing(chromium, worker.url, viewport={"width": width, "height": 900}, color_scheme=theme)
        for path in VIEWS:
            seen.open(path)
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
            assert seen.violations() == [], (path, width)
            name = path.strip("/").replace("/", "-") or "overview"
            seen.page.screenshot(path=PICTURES / f"{name}-{theme}-{width}.png", full_page=True)
        assert seen.errors == []
        seen.close()
