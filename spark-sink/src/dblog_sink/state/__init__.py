"""The sink's state outside its tables: control table, lease, small files, crash points."""
