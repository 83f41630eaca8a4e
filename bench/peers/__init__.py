"""The peers: how each is opened as its own documentation recommends, and its workflows. Imported
only in its own environment."""
