"""Runs tasks in slots: child processes, threads or coroutines."""
