"""Compress, encrypt and offload the values that runs store, and verify and re-encrypt them."""
