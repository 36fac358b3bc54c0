"""The keys of the connectors, one file a group; what one kind of database alone has is in its own files."""
