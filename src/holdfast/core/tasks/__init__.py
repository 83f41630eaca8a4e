"""Leased tasks: what follows when an attempt fails, and what a suspended task waits for. Pure."""
