"""MariaDB: where it differs from MySQL."""
