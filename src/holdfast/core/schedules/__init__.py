"""Schedules: when they tick, and what is to be done about the ticks that are due. Pure."""
