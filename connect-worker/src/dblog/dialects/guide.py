"""The pages about preparing a database, ``connect-worker/docs/prepare-*.md``: which section helps with a finding.

A sentence about a missing setting or privilege ends with the page's file and the anchor of the
section, so that the reader finds all commands for the kind of server that they have. A test
compares this table with the pages' headings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, unique


@unique
class Hosting(Enum):
    """Who runs the server. The value is the heading of its section in the pages."""

    SELF = "Self-hosted"
    RDS = "Amazon RDS"
    AURORA = "Amazon Aurora"
    CLOUD_SQL = "Google Cloud SQL"
    AZURE = "Azure"


@unique
class Topic(Enum):
    """A subject of a finding. The value is the heading of its section in the pages."""

    SETTINGS = "Server settings"
    ACCOUNT = "The account"
    PUBLICATION = "The publication"
    RETENTION = "Log retention"
    REPLICAS = "Replicas"
    TLS = "TLS"
    TABLES = "Tables"


PAGES: Mapping[str, str] = {"mysql": "prepare-mysql.md", "mariadb": "prepare-mariadb.md", "postgres": "prepare-postgres.md"}
"""The page of each flavor of connector."""

CLOUDS: Mapping[str, frozenset[Hosting]] = {
    "mysql": frozenset({Hosting.RDS, Hosting.AURORA, Hosting.CLOUD_SQL, Hosting.AZURE}),
    "mariadb": frozenset({Hosting.RDS}),
    "postgres": frozenset({Hosting.RDS, Hosting.AURORA, Hosting.CLOUD_SQL, Hosting.AZURE}),
}
"""The managed services that have a section of their own in the flavor's page."""

_HOSTS = {
    Hosting.RDS: (".rds.amazonaws.com", ".rds.amazonaws.com.cn"),
    Hosting.AZURE: (".mysql.database.azure.com", ".postgres.database.azure.com"),
}


def hosting_of_name(host: str) -> Hosting:
    """Return the service whose servers have names like ``host``; SELF if no ending is known.

    Aurora's names end like those of RDS, and Cloud SQL's servers mostly have addresses alone.
    """
    name = host.strip().lower().rstrip(".")
    return next((hosting for hosting, endings in _HOSTS.items() if name.endswith(endings)), Hosting.SELF)


def section(flavor: str, topic: Topic, hosting: Hosting = Hosting.SELF) -> str:
    """Return page and anchor of a topic, such as ``prepare-mysql.md#log-retention``.

    A managed service has one section for everything that differs there; a table's keys differ
    nowhere.
    """
    heading = hosting.value if hosting in CLOUDS[flavor] and topic is not Topic.TABLES else topic.value
    return f"{PAGES[flavor]}#{anchor(heading)}"


def cited(sentence: str, flavor: str, topic: Topic, hosting: Hosting = Hosting.SELF) -> str:
    """Return the sentence with the section that helps after it."""
    return f"{sentence} (more: {section(flavor, topic, hosting)})"


def anchor(heading: str) -> str:
    """Return the anchor that a heading has on a rendered page."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
