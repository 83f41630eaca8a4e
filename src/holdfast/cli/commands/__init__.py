"""The commands, one file per command or group."""
