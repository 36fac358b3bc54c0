"""Which cases of a test wait for the long run."""

from support.some_cases import later


def test_of_each_three_cases_the_first_is_run() -> None:
    names = [f"f.py::test_a[{case}]" for case in range(5)] + ["f.py::test_b[x]"]

    assert later(names) == {f"f.py::test_a[{case}]" for case in (1, 2, 4)}


def test_the_cases_of_each_server_are_counted_apart() -> None:
    names = [f"f.py::test_a[{server}-{case}]" for case in "xy" for server in ("mariadb", "mysql")]

    assert later(names) == {"f.py::test_a[mariadb-y]", "f.py::test_a[mysql-y]"}
