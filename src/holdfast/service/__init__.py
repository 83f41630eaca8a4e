"""Requests by feature: check the arguments, build the operation, read the answer."""
