"""The source task of the MySQL and MariaDB connectors, on the shared reader layer."""
