"""Pages of the admin that show requests, and change nothing."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.utils.functional import cached_property
from django.utils.html import format_html

from rowlease.integrations.django.backend import rowlease_backends
from rowlease.integrations.django.models import FinishedRequest, QueuedRequest

#: The number of requests that the pages of a list reach. To count a whole table may take minutes.
MAX_LISTED = 10_000


class NewestRequests(Paginator):
    """The pages of the newest requests."""

    @cached_property
    def count(self) -> int:
        return int(self.object_list[:MAX_LISTED].count())


@admin.register(QueuedRequest, FinishedRequest)
class RequestAdmin(admin.ModelAdmin):
    paginator = NewestRequests
    show_full_result_count = False
    ordering = ("-request_id",)
    list_display = (
        "request_id", "kind", "status", "queue_name", "priority", "due_time", "num_attempts",
        "dashboard",
    )  # fmt: skip
    list_filter = ("status",)
    search_fields = ("=kind",)
    search_help_text = "the path of a task, such as shop.tasks.send"

    def get_fields(self, request: Any, obj: Any = None) -> list[str]:
        return [*(field.name for field in self.model._meta.fields), "dashboard"]

    def get_queryset(self, request: Any) -> Any:
        databases = [one.database for one in rowlease_backends()]
        found = super().get_queryset(request)
        return found.using(databases[0]) if databases else found

    def has_add_permission(self, request: Any) -> bool:
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    @admin.display(description="dashboard")
    def dashboard(self, found: Any) -> str:
        """A link to the page of the request, if the backend has the option `dashboard_url`."""
        for one in rowlease_backends():
            if url := one.options.get("dashboard_url"):
                href = f"{str(url).rstrip('/')}/requests/{found.pk}"
                return str(format_html('<a href="{}">all about it</a>', href))
        return ""
