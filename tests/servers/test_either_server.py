"""Which tests of both servers wait for the long run."""

from support.either_server import later

NAMES = [
    "f.py::test_a[mariadb-x]",
    "f.py::test_a[mysql-x]",
    "f.py::test_a[MySql-1]",
    "f.py::test_a[MariaDb-1]",
    "f.py::test_b[True]",
    "f.py::test_c",
]


def test_of_a_test_on_both_servers_one_waits() -> None:
    waiting = later(NAMES)

    assert len(waiting & set(NAMES[:2])) == 1
    assert len(waiting & set(NAMES[2:4])) == 1
    assert waiting <= set(NAMES[:4])


def test_each_server_has_about_half() -> None:
    waiting = later(f"f.py::test[{server}-{number}]" for number in range(200) for server in ("mariadb", "mysql"))

    assert 70 < sum("mysql" in name for name in waiting) < 130


def test_a_test_of_one_server_alone_is_never_left_for_later() -> None:
    assert later(["f.py::test_a[mysql]", "f.py::test_b[mariadb]", "f.py::test_settings[mysql-mariadb]"]) == set()
