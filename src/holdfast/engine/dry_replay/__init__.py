"""Dry replay: run the code of definitions against recorded histories, and do nothing else."""
