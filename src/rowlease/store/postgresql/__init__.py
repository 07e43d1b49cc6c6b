"""The wing for PostgreSQL: psycopg 3."""
