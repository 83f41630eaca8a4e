"""The blocking engine. ``tools/generate_blocking.py`` writes all files here."""
