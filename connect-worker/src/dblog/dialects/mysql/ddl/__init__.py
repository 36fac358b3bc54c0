"""DDL statements of the log as changes of tables: lexer, parsers, defaults, and the schema-change
records that follow. No I/O.
"""
