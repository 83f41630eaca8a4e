"""The output of runs."""
