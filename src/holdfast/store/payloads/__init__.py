"""Values that are stored separately, and their seals."""
