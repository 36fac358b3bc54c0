"""What can go wrong with the stack: a machine that cannot have a server, or a server that does not behave."""


class StackError(Exception):
    """A server did not start, answer or stop; the text ends with the last lines of its log."""


class Unavailable(StackError):  # noqa: N818  a state of the machine, not a mistake
    """This machine cannot have the server; the text names what to install."""
