"""All SQL statements about tables, and the meaning of information_schema's rows. No I/O."""
