"""The tables of requests, for the pages of the admin and for queries. rowlease creates them."""

from __future__ import annotations

from typing import Any

from django.db import models

from rowlease.filters.filter import STATUSES


class Json(models.JSONField):
    """A column of the type json, which the driver reads. Django's field expects text."""

    def from_db_value(self, value: Any, *_: Any) -> Any:
        return value


class _AnyRequest(models.Model):
    request_id = models.BigIntegerField("request", primary_key=True)
    queue_name = models.CharField("queue", max_length=100)
    kind = models.CharField("task", max_length=200)
    status = models.CharField(max_length=10, choices=[(one, one) for one in STATUSES])
    priority = models.IntegerField()
    requested_time = models.DateTimeField("requested")
    due_time = models.DateTimeField("due")
    locked_by = models.CharField("worker", max_length=200, null=True)
    locked_time = models.DateTimeField("claimed", null=True)
    num_attempts = models.IntegerField("attempts")
    max_attempts = models.IntegerField()
    payload = Json(null=True)
    last_error = models.TextField(null=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.kind} {self.request_id}"


class QueuedRequest(_AnyRequest):
    """A request that waits, runs or is a dead letter."""

    class Meta:
        managed = False
        db_table = '"rowlease"."queue"'
        verbose_name = "request"


class FinishedRequest(_AnyRequest):
    """A request that is complete or cancelled."""

    completion_time = models.DateTimeField("finished", null=True)
    result = Json(null=True)

    class Meta:
        managed = False
        db_table = '"rowlease"."queue_history"'
        verbose_name = "finished request"
