"""The tables that commands print."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from rowlease.cli.tables import show_table

#: A quarter past seven in the evening, in India.
INDIAN = datetime(2026, 5, 17, 19, 15, tzinfo=timezone(timedelta(hours=5.5)))


def test_columns_are_aligned_and_say_that_times_are_in_utc(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [("mail", 7, INDIAN), ("日本語", None, datetime(2026, 1, 2, tzinfo=UTC))]
    show_table(("queue", "waiting", "enqueued"), rows)
    assert capsys.readouterr().out == (
        "queue   waiting  enqueued (UTC)\n"
        "mail          7  2026-05-17 13:45:00\n"
        "日本語        -  2026-01-02 00:00:00\n"
    )


def test_a_table_without_rows_is_its_header(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(("queue", "enqueued"), [])
    assert capsys.readouterr().out == "queue  enqueued\n"
