"""How values are compressed, encrypted and kept apart, and what is deleted when."""
