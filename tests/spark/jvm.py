"""Options for the JVMs of tests, which are many and live for seconds."""

from __future__ import annotations

#: Compiling well, and a second thread for garbage, cost more than they save.
LEAN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
