"""Stored definitions: texts and models that runs keep, or that were deployed."""
