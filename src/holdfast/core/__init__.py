"""The pure core: no clock, no dice, no database, no threads. Data in, data out."""
