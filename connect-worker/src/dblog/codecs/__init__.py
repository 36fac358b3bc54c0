"""Schemas and bytes: Connect's schema model, the converters, and the row plans."""
