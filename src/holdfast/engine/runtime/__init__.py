"""The machinery below the worker: group commit, timers, threads, wake-ups."""
