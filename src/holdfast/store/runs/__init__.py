"""Runs, their histories, and the sessions that hold them."""
