"""The MariaDB dialect: only its differences from MySQL."""
