"""The connections: login, check, log and dump. The only I/O of this dialect."""
