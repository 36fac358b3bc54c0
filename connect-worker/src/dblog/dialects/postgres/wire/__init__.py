"""All that talks to a server."""
