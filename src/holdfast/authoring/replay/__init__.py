"""Replay of workflow code: the event loop, step identities and history matching."""
