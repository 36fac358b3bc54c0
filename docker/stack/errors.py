"""Errors of the stack: a machine that cannot have a server, or a server that misbehaves."""


class StackError(Exception):
    """A server that did not start, answer or stop; the text ends with the last lines of its log."""


class Unavailable(StackError):  # noqa: N818  a state of the machine, not a mistake
    """A server that this machine cannot have; the text names what to install."""
