"""The demo prints how long its steps took."""

from __future__ import annotations

import pytest

from rowlease.demo.display import time_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0042, "4 ms"),
        (0.0996, "100 ms"),
        (0.1, "0.1 s"),
        (12.34, "12.3 s"),
        (1234.5, "1,234.5 s"),
    ],
)
def test_short_steps_are_in_milliseconds(seconds: float, text: str) -> None:
    assert time_text(seconds) == text
