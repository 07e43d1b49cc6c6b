"""Django's tasks, run by rowlease: an application for INSTALLED_APPS and a backend for TASKS.

    INSTALLED_APPS = [..., "rowlease.integrations.django"]
    TASKS = {"default": {"BACKEND": "rowlease.integrations.django.RowleaseBackend"}}

`manage.py migrate` then creates the schema, and `manage.py rowlease_worker` runs the tasks.
"""

from rowlease.integrations.django.backend import RowleaseBackend

__all__ = ["RowleaseBackend"]
