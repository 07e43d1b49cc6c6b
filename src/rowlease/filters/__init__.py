"""Filters of requests: the fields, and the language in which people write them."""
