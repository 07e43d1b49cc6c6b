"""Runs the command line: `python -m rowlease` does the same as `rowlease`."""

from rowlease.cli import main

main()
