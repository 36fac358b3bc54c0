"""Checks that every dumped row that a chunk marker counts has arrived (I9)."""
