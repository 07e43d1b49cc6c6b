"""`manage.py rowlease_worker`."""
