"""What the system catalogs show, and the statements that ask for it."""
