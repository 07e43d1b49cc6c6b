"""Connects rowlease with frameworks. Each module needs its framework, and imports nothing else."""
