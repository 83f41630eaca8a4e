"""Schedules: their rules, their ticks, and the plan for due ticks. Pure."""
