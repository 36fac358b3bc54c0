"""``dblog connectors``: keeps the connectors of a worker equal to files, by its REST interface alone."""
