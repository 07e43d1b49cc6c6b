"""What a worker holds: claims requests, keeps their leases alive, delivers their outcomes."""
