"""Which section of the pages a finding names, and whose server it is by its name."""

import pytest
from dblog.dialects.guide import Hosting, Topic, cited, hosting_of_name, section


def test_a_finding_names_the_topic_of_an_own_server_and_the_section_of_a_service():
    assert section("mysql", Topic.RETENTION) == "prepare-mysql.md#log-retention"
    assert section("mysql", Topic.RETENTION, Hosting.CLOUD_SQL) == "prepare-mysql.md#google-cloud-sql"
    assert section("postgres", Topic.ACCOUNT) == "prepare-postgres.md#the-account"
    assert cited("x is missing", "postgres", Topic.SETTINGS, Hosting.RDS) == "x is missing (more: prepare-postgres.md#amazon-rds)"


def test_what_is_the_same_everywhere_and_what_a_page_lacks_have_the_sections_of_an_own_server():
    assert section("postgres", Topic.TABLES, Hosting.AZURE) == "prepare-postgres.md#tables"
    assert section("mariadb", Topic.SETTINGS, Hosting.AZURE) == "prepare-mariadb.md#server-settings"


@pytest.mark.parametrize(
    ("host", "hosting"),
    [
        ("shop.abc.eu-west-1.rds.amazonaws.com", Hosting.RDS),
        ("SHOP.abc.eu-west-1.RDS.amazonaws.com.", Hosting.RDS),
        ("shop.mysql.database.azure.com", Hosting.AZURE),
        ("shop.postgres.database.azure.com", Hosting.AZURE),
        ("rds.amazonaws.com.example.org", Hosting.SELF),
        ("10.0.0.3", Hosting.SELF),
    ],
)
def test_a_service_is_known_by_the_end_of_its_servers_names(host: str, hosting: Hosting):
    assert hosting_of_name(host) is hosting
