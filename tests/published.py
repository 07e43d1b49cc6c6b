"""Tables that a long run writes into docs/reliability.md, between two marks."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"


def publish(what: str, table: str) -> None:
    """Put a table between its marks; a checkout without the page needs none."""
    if PAGE.exists():
        text = PAGE.read_text(encoding="utf-8")
        marks = rf"(?<=<!-- {what}: begin -->\n).*?(?=<!-- {what}: end -->)"
        text = re.sub(marks, lambda _: f"\n{table}\n\n", text, flags=re.S)
        PAGE.write_text(text, encoding="utf-8")
