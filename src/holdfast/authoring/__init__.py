"""The front ends: each turns the source of a workflow into a program (history in, commands out)."""
