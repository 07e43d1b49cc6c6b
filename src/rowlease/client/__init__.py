"""The producer's side: clients, handles, and the calls that they make."""
