"""Shows the pages of `rowlease top` in the terminal, until the user quits."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from rowlease.errors import StoreError
from rowlease.store import Store
from rowlease.top.keys import Keys, keys
from rowlease.top.navigation import SHOWN_KEYS, Navigation, View
from rowlease.top.overview import ORDERS, Overview, cut, first_shown, plain_table
from rowlease.top.pages import Listing, listing
from rowlease.top.sample import Sampler, TopSample

#: Seconds between two readings of the database.
REFRESH_SECONDS = 1.0
#: The time limit of each call, so that keys do not wait for long.
CALL_TIMEOUT = timedelta(seconds=5)
#: Lines of a page that are neither rows nor notes.
PAGE_FRAME_LINES = 5


def watch(store: Store, console: Console) -> None:
    """Show pages until q or Ctrl-C is pressed, and read the database each second.

    Raises:
        StoreError: the first reading failed, or a later one failed with an error that is not
            transient.
    """
    screen = Screen(store)
    screen.read()
    with (
        interrupted() as leave,
        keys() as pressed,
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        while True:
            live.update(screen.shown(console), refresh=True)
            if leave.is_set() or screen.follow(pressed) or leave.is_set():
                return


class Screen:
    """The current page, and its values from the database."""

    def __init__(self, store: Store) -> None:
        self._store = store.within(CALL_TIMEOUT)
        self._sampler = Sampler(self._store)
        self._sample = TopSample([], [])
        self._listing: Listing | None = None
        self._read_at = 0.0
        self._error = ""
        self.navigation = Navigation()

    def follow(self, pressed: Keys, clock: Callable[[], float] = time.monotonic) -> bool:
        """Wait for keys or the time of the next reading. True if the user has quit."""
        before = self.navigation.view
        for key in pressed.wait(self._read_at + REFRESH_SECONDS - clock()):
            self.press(key)
            if self.navigation.is_over:
                return True
        view = self.navigation.view
        is_new = (view.page, view.subject, view.filter, view.order, view.reverse) != (
            *(before.page, before.subject, before.filter, before.order, before.reverse),
        )
        if is_new or clock() >= self._read_at + REFRESH_SECONDS:
            self.read()
            self._read_at = clock()
        return False

    def press(self, key: str) -> None:
        """Act on a key."""
        if self._listing is None:
            opens = [View("queue", queue.name) for queue in self._sample.queues]
            self.navigation.press(key, opens, len(ORDERS))
        else:
            rows = [row.opens for row in self._listing.rows]
            self.navigation.press(key, rows, len(self._listing.columns))

    def read(self) -> None:
        """Read the database for the current page. After a transient error, keep the last values."""
        view = self.navigation.view
        try:
            if view.page == "overview":
                self._sample = in_order(self._sampler.sample(), view)
                self._listing = None
            else:
                self._listing = listing(self._store, view)
            self._error = ""
        except StoreError as error:
            if not error.transient:
                raise
            self._error = f"{time.strftime('%H:%M:%S')}  {error}".splitlines()[0]

    def shown(self, console: Console) -> RenderableType:
        """The page, and the keys in the last line."""
        view, last = self.navigation.view, self._last_line(console.width)
        if self._listing is None:
            sorted_by = ORDERS[view.order][0] if view.order is not None else ""
            frame = Overview(
                self._sample,
                self._store.where,
                self._error,
                selected=min(view.selected, max(0, len(self._sample.queues) - 1)),
                sorted_by=sorted_by,
                spare=2,
            )
            return Group(frame, Text(""), last)
        return Group(*page(self._listing, view, console.height, self._error), Text(""), last)

    def _last_line(self, width: int) -> Text:
        if self.navigation.typed is not None:
            prompt = "find: "
            room = max(1, width - len(prompt) - 1)
            return Text.assemble(
                (prompt, "bold"), self.navigation.typed[-room:], ("\N{FULL BLOCK}", "blink")
            )
        shown = Text()
        for key, what in SHOWN_KEYS:
            found = Text.assemble("  " if shown else "", (key, "bold"), (f" {what}", "dim"))
            if shown.cell_len + found.cell_len <= width:
                shown += found
        return shown


def in_order(sample: TopSample, view: View) -> TopSample:
    """The sample with its queues in the order of the view."""
    if view.order is None:
        return sample
    queues = sorted(sample.queues, key=ORDERS[view.order][1], reverse=view.reverse)
    return sample._replace(queues=queues)


def page(listing: Listing, view: View, height: int, error: str = "") -> list[RenderableType]:
    """The title, the notes and the table of a page, cut to the height of the terminal."""
    title = cut(("rowlease top", "bold"), f"  {listing.title}")
    notes = [cut(note) for note in listing.notes][: max(1, height - PAGE_FRAME_LINES - 2)]
    table = plain_table()
    for place, name in enumerate(listing.columns):
        style = "bold underline" if place == view.order else ""
        is_number = name.startswith(">")
        table.add_column(
            Text(name.removeprefix(">"), style=style),
            justify="right" if is_number else "left",
            no_wrap=is_number,
        )
    room = max(1, height - PAGE_FRAME_LINES - len(notes) - bool(error))
    selected = min(view.selected, max(0, len(listing.rows) - 1))
    first = first_shown(len(listing.rows), room, selected)
    for number, row in enumerate(listing.rows[first : first + room], first):
        table.add_row(*map(cut, row.cells), style="reverse" if number == selected else "")
    errors = [Text(error, style="bold red")] if error else []
    return [title, *errors, *notes, Text(""), table]


@contextmanager
def interrupted() -> Iterator[threading.Event]:
    """Yields an event that the first Ctrl-C sets. A second Ctrl-C raises KeyboardInterrupt.

    The first Ctrl-C does not raise an exception, because Python ignores exceptions in finalizers.
    """
    leave = threading.Event()

    def first(*_: object) -> None:
        leave.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, first)
    try:
        yield leave
    finally:
        signal.signal(signal.SIGINT, before)
