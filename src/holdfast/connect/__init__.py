"""Assemble engines: open the store that a URL names, and build the engine on it."""
