"""Keys that sign tokens."""
