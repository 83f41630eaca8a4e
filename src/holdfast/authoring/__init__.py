"""Ways to write a workflow. Each turns its source into a program: history in, commands out."""
