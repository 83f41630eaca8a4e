"""Graphs: runs that depend on each other. What they are, how one is drawn up, and what the end of a
member leads to. Pure."""
