"""The connections: login, check, log and dump. All I/O of this dialect is here."""
