"""Conditions over signals: their shape, their evaluation, their validation. Pure."""
