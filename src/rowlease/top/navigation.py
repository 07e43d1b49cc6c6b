"""The effects of keys in `rowlease top`. This module reads neither the database nor keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rowlease.filters.language import quote

#: The keys that open a page from any other page.
OPENS = {"e": "errors", "s": "schedules", "l": "loads"}
#: The keys that are shown on each page, the most important first: narrow terminals show fewer.
SHOWN_KEYS = (
    ("↑↓", "select"), ("⏎", "open"), ("←", "back"), ("q", "quit"), ("/", "find"), ("e", "errors"),
    ("s", "schedules"), ("l", "loads"), ("<>", "sort"), ("r", "reverse"),
)  # fmt: skip
#: The number of rows by which PageUp and PageDown move.
PAGE = 10


@dataclass(frozen=True)
class View:
    """A page, and how it is shown.

    Attributes:
        page: `overview`, `queue`, `requests`, `request`, `errors`, `schedules` or `loads`.
        subject: the queue or the id of the request.
        filter: the filter of the page `requests`.
        selected: the number of the selected row, from 0.
        order: the number of the column by which rows are sorted; None: as the database returns
            them.
    """

    page: str
    subject: str = ""
    filter: str = ""
    selected: int = 0
    order: int | None = None
    reverse: bool = False


class Navigation:
    """The open pages, one on top of the other.

    Attributes:
        typed: the filter that is being typed, or None.
        is_over: whether the user has quit.
    """

    def __init__(self) -> None:
        self._views = [View("overview")]
        self.typed: str | None = None
        self.is_over = False

    @property
    def view(self) -> View:
        """The page on top."""
        return self._views[-1]

    def press(self, key: str, opens: Sequence[View | None], num_columns: int) -> None:
        """Act on a key.

        Args:
            key: a character, or the name of a key as `rowlease.top.keys` gives it.
            opens: the page that each row of the current page opens.
            num_columns: the number of columns of the current page.
        """
        if key == "interrupt":
            self.is_over = True
        elif self.typed is not None:
            self._type(key)
        elif key == "q":
            self.is_over = True
        elif key in ("left", "escape", "backspace"):
            self._back(ends=key == "escape")
        elif key in ("up", "down", "page up", "page down", "home", "end"):
            self._move(key, len(opens))
        elif key in ("enter", "right"):
            selected = min(self.view.selected, len(opens) - 1)
            if selected >= 0 and (found := opens[selected]) is not None:
                self._views.append(found)
        elif key == "/":
            queue = f"queue:{quote(self.view.subject)} " if self.view.page == "queue" else ""
            self.typed = self.view.filter or queue
        elif key in OPENS and self.view.page != OPENS[key]:
            self._views.append(View(OPENS[key]))
        elif key in ("<", ">") and num_columns:
            step = 1 if key == ">" else -1
            place = (0 if step > 0 else -1) if self.view.order is None else self.view.order + step
            self._change(order=place % num_columns)
        elif key == "r":
            self._change(reverse=not self.view.reverse, order=self.view.order or 0)

    def _change(self, **changes: object) -> None:
        self._views[-1] = replace(self.view, **changes)  # type: ignore[arg-type]

    def _back(self, *, ends: bool) -> None:
        if len(self._views) > 1:
            self._views.pop()
        elif ends:
            self.is_over = True

    def _move(self, key: str, num_rows: int) -> None:
        now = min(self.view.selected, max(0, num_rows - 1))
        to = {"up": now - 1, "down": now + 1, "page up": now - PAGE, "page down": now + PAGE,
              "home": 0, "end": num_rows - 1}[key]  # fmt: skip
        self._change(selected=max(0, min(to, num_rows - 1)))

    def _type(self, key: str) -> None:
        assert self.typed is not None
        if key == "enter":
            view = View("requests", filter=self.typed.strip())
            if self.view.page == "requests":
                self._views[-1] = view
            else:
                self._views.append(view)
            self.typed = None
        elif key == "escape":
            self.typed = None
        elif key == "backspace":
            self.typed = self.typed[:-1]
        elif key == "clear":
            self.typed = ""
        elif len(key) == 1:
            self.typed += key
