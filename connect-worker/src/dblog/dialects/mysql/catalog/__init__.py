"""Every SQL statement that is sent about tables, and what the rows of information_schema mean. No I/O."""
