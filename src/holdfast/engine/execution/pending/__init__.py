"""Pending commands: one file per kind, with its handlers and the class of its waits."""
