"""`python -m rowlease` is `rowlease`."""

from rowlease.cli import main

main()
