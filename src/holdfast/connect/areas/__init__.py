"""What an engine can be asked to do besides starting and operating runs: one module per capability.

Each has a class for ``Engine`` and a twin for ``AsyncEngine``; what is asked is put together and checked in ``holdfast.engine``.
"""
