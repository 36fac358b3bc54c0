"""The MySQL dialect: types, log events, statements and connections. MariaDB shares most of it."""
