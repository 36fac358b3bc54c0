"""Options as data: settings of the worker and its connectors, and the checks of their values."""
