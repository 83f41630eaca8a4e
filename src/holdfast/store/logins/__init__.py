"""Login sessions of browsers, and the one-time links that open them."""
