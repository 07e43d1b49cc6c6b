"""The worker as a process of its host: health, signals, and a supervisor of several workers."""
