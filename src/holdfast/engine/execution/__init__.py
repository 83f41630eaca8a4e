"""The execution of one leased run."""
