"""``dblog dumps``: requests and controls dumps from the command line, by a worker's REST API."""
