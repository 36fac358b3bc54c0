"""What people ask of a sink's tables: why a row is as it is, its freshest state, the newest rows."""
