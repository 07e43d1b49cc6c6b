"""The job queue that lives in one SQL table."""
