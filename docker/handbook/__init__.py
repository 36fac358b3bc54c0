"""Builds the documentation as a site from the Markdown pages of the repository.

`docs/mkdocs.yml` is the map: its navigation names every page by its path in the repository, so a
link between two pages works in both places. Pages that are made from code (`made.py`) exist on the
site alone.
"""
