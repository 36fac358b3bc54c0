"""``dblog dumps``: dumps on demand from the command line, by the REST interface of a worker."""
