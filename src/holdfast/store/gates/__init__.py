"""Gates: decisions of people."""
