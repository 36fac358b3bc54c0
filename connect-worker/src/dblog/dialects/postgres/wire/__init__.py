"""Connections to servers, and the questions asked on them."""
