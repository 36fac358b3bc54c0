"""The commands that steer connectors by a worker's REST interface, as the page does."""
