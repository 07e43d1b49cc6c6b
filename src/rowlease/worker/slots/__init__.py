"""What runs the tasks: slots in child processes, threads or coroutines, and who gets what."""
