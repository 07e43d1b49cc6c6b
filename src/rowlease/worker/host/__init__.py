"""The worker as a process: health, signals, systemd, and a supervisor of several workers."""
