"""Claims requests, renews their leases and delivers their outcomes."""
