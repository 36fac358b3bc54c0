"""The options of the connectors, one file for each group.

Options of one kind of database have files of their own.
"""
