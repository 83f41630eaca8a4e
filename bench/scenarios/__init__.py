"""The scenarios, one module each. They import nothing but the standard library and ``bench`` before
they are called."""
