"""Signals from tables, a topic and a file, which order dumps or change them."""
