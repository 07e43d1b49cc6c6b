"""The store for PostgreSQL, with psycopg 3."""
