"""Questions about a sink's tables: the origin of a row, its freshest state, the newest rows."""
