"""Graphs: runs that depend on each other. Model, builder, validation, compilation and resolution.
Pure."""
