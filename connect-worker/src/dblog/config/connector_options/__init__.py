"""The keys of the MySQL and MariaDB connectors, one file a group."""
