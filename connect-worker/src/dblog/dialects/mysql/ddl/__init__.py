"""DDL text of the log as changes of tables: lexer, parsers, defaults, and the schema change records that come of them. No I/O."""
