"""The pages of `rowlease top`: what its keys do, and what it shows, without a terminal."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from rich.console import Console

from rowlease.errors import StoreError, StoreUnavailable
from rowlease.model import (
    Attempt,
    DeadLetterGroup,
    Depth,
    Explanation,
    Found,
    ListedLease,
    LoadState,
    NextRequest,
    QueueState,
    Request,
    Schedule,
    WorkerState,
)
from rowlease.store import Store
from rowlease.top.keys import Keys, keys_of
from rowlease.top.navigation import SHOWN_KEYS
from rowlease.top.overview import sparkline
from rowlease.top.screen import Screen

AT = datetime(2026, 11, 22, 18, 0, tzinfo=UTC)
HOSTILE = "bad\x1b[2J"


class Prepared:
    """A store with two queues, and records of what was asked."""

    where = "postgresql://app:***@host/queue"

    def __init__(self) -> None:
        self.error: StoreError | None = None
        self.asked: list[tuple[str, Any]] = []
        self.num_dead = 1

    def within(self, timeout: timedelta) -> Prepared:
        return self

    def list_queues(self) -> list[QueueState]:
        if self.error:
            raise self.error
        self.asked.append(("list_queues", None))
        return [
            QueueState("images", False, 100, 1, timedelta(seconds=200)),
            QueueState("mail", True, 40, 3, None),
        ]

    def depth(self, queue: str | None = None) -> list[Depth]:
        found = [Depth("images", 5, 1, 12, 3, 4), Depth("mail", 0, 0, 1, 0, 0)]
        return [one for one in found if queue in (None, one.queue_name)]

    def list_workers(self) -> list[WorkerState]:
        return [WorkerState("w", "host-one", 7, "1", ("images",), 4, 3, 0, AT, timedelta(0))]

    def list_leases(self, limit: int) -> list[ListedLease]:
        times = (AT, AT, AT, 12)
        return [
            ListedLease("images", 11, "resize", 5, "host-one:7:ab", *times, 1, 3, False),
            ListedLease("mail", 12, "send", 0, "host-one:7:ab", *times, 1, 3, False),
        ]

    def list_ready(self, queue: str, limit: int) -> list[NextRequest]:
        return [NextRequest(place, 20 + place, "resize", 5, AT, 60 * place) for place in (1, 2)]

    def get_request(self, request_id: int) -> Request | None:
        if request_id == 99:
            return None
        attempt = Attempt(1, "host-one:7:ab", AT, AT, "failed", f"{HOSTILE}\nx", "Timeout", "trace")
        return Request(
            *(request_id, "images", "resize", "Pending", 5, AT, "key", None, 1, '{"a": 1}'),
            *(
                f"Timeout: {HOSTILE}\nmore",
                None,
                3,
                AT,
                None,
                None,
                None,
                "load-1",
                "{}",
            ),
            None,
            (attempt,),
            None,
            None,
        )

    def explain(self, request_id: int) -> Explanation:
        return Explanation("due", "it is due in 3 s")

    def find_requests(self, **given: Any) -> Found:
        self.asked.append(("find", {name: value for name, value in given.items() if value}))
        request = self.get_request(31)
        assert request
        return Found([request, request._replace(request_id=32)], 32)

    def list_dead_letters(self, limit: int) -> list[DeadLetterGroup]:
        group = DeadLetterGroup("images", "resize", 'no "answer" in # s', 9, AT, AT, 77)
        return [group._replace(num_requests=9 + number) for number in range(self.num_dead)]

    def list_schedules(self) -> list[Schedule]:
        about = ("UTC", "mail", "report", "{}", 0, 1, False)
        return [Schedule("nightly", "0 3 * * *", *about, AT, AT, 41, AT, None)]

    def list_loads(self, limit: int) -> list[LoadState]:
        numbers = (100, 60, 0, 0, 0, 1500)
        return [LoadState("flights", "images", "Staging", "spark", *numbers, AT, AT, None, 70, 1)]


class Typed(Keys):
    """Gives one key after the other."""

    def __init__(self, *names: str) -> None:
        super().__init__(None)
        self._names = list(names)

    def wait(self, seconds: float) -> list[str]:
        return [self._names.pop(0)] if self._names else []


@pytest.fixture
def store() -> Prepared:
    return Prepared()


@pytest.fixture
def screen(store: Prepared) -> Screen:
    opened = Screen(cast("Store", store))
    opened.read()
    return opened


def press(screen: Screen, *names: str) -> bool:
    """Press keys; True if one of them has quit."""
    typed = Typed(*names)
    return sum(screen.follow(typed) for _ in names) > 0


def shown(screen: Screen, width: int = 110, height: int = 30) -> str:
    console = Console(
        file=(file := io.StringIO()), width=width, height=height, force_terminal=True,
        color_system=None,
    )  # fmt: skip
    console.print(screen.shown(console))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def find(screen: Screen, text: str) -> None:
    press(screen, "/", *text, "enter")


# -- pages -------------------------------------------------------------------------------------

#: What each page shows; the last line with the keys is that of all.
KEYS = "  ".join(f"{key} {what}" for key, what in SHOWN_KEYS)
FRAMES = {
    "a queue": (
        ("enter",),
        """\
rowlease top  queue images
priority 5: 12 waiting, 3 running, 1 scheduled, 4 dead letters

request  kind    priority  status   time           attempt  worker
     11  resize         5  running  12s left       1 of 3   host-one:7:ab
     21  resize         5  place 1  waiting 1m 0s
     22  resize         5  place 2  waiting 2m 0s""",
    ),
    "a request": (
        ("enter", "down", "enter"),
        """\
rowlease top  request 21
Pending  kind resize  queue images  priority 5  attempt 1 of 3
enqueued 2026-11-22 18:00:00  due 2026-11-22 18:00:00
dedup key key
load load-1
it is due in 3 s
headers {}
payload {"a": 1}
error Timeout: bad\\x1b[2J

attempt  outcome  started              ended                worker         error
      1  failed   2026-11-22 18:00:00  2026-11-22 18:00:00  host-one:7:ab  Timeout: bad\\x1b[2J""",
    ),
    "errors": (
        ("e",),
        """\
rowlease top  errors

requests  queue   kind    last                 error
       9  images  resize  2026-11-22 18:00:00  no "answer" in # s""",
    ),
    "schedules": (
        ("s",),
        """\
rowlease top  schedules

schedule  cron       time zone  queue  next                 last                 request
nightly   0 3 * * *  UTC        mail   2026-11-22 18:00:00  2026-11-22 18:00:00       41""",
    ),
    "loads": (
        ("l",),
        """\
rowlease top  loads

load     queue   status   staged  enqueued  rows/s  started              silent
flights  images  Staging      60         0   1,500  2026-11-22 18:00:00  1m 10s""",
    ),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_page_shows_what_the_database_returns(name: str, screen: Screen) -> None:
    keys, frame = FRAMES[name]
    assert not press(screen, *keys)
    assert shown(screen) == f"{frame}\n\n{KEYS}"


def test_the_overview_has_a_sparkline_and_the_keys(screen: Screen) -> None:
    screen.read()
    text = shown(screen)
    assert "12 waiting" not in text.splitlines()[0]  # 12 and 1 of both queues
    assert text.splitlines()[0].startswith("rowlease top  13 waiting  3/4 slots busy")
    assert "██" in text
    assert "host-one" in text
    assert text.endswith(KEYS)
    assert shown(screen, width=40).splitlines()[-1] == "↑↓ select  ⏎ open  ← back  q quit"


@pytest.mark.parametrize("width", [40, 56, 80, 120])
@pytest.mark.parametrize("height", [12, 24])
@pytest.mark.parametrize("name", [*FRAMES, "overview"])
def test_every_page_fits_the_terminal(
    name: str, width: int, height: int, screen: Screen, store: Prepared
) -> None:
    store.num_dead = 100
    press(screen, *FRAMES.get(name, ((), ""))[0])
    lines = shown(screen, width, height).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= height


def test_a_lease_that_ran_out_is_named(screen: Screen, store: Prepared) -> None:
    (lease, *_) = store.list_leases(1)
    store.list_leases = lambda limit: [lease._replace(left_seconds=-9)]  # type: ignore[method-assign]
    press(screen, "enter")
    assert "lease ran out" in shown(screen)


def test_nothing_that_a_producer_wrote_controls_the_terminal(screen: Screen) -> None:
    for keys in (("enter", "enter"), ("/", "enter")):
        press(screen, *keys)
        assert "\x1b[2J" not in shown(screen)
        assert "bad\\x1b[2J" in shown(screen)


# -- keys --------------------------------------------------------------------------------------


def test_a_row_is_selected_and_opened_and_left(screen: Screen) -> None:
    press(screen, "down", "down", "down", "enter")
    assert shown(screen).startswith("rowlease top  queue mail")
    press(screen, "left")
    assert screen.navigation.view.selected == 1
    press(screen, "up", "up", "enter")
    assert shown(screen).startswith("rowlease top  queue images")
    press(screen, "end", "enter")
    assert shown(screen).startswith("rowlease top  request 22")
    press(screen, "escape", "escape")
    assert screen.navigation.view.page == "overview"


def test_a_long_list_follows_the_selected_row(screen: Screen, store: Prepared) -> None:
    store.num_dead = 100
    press(screen, "e")
    screen.navigation.press("end", [None] * 100, 5)
    assert screen.navigation.view.selected == 99
    assert "108  images" in shown(screen, height=12)
    screen.navigation.press("page up", [None] * 100, 5)
    assert screen.navigation.view.selected == 89
    assert shown(screen, height=12).count('no "answer"') == 7


@pytest.mark.parametrize("key", ["q", "interrupt", "escape"])
def test_a_key_quits(key: str, screen: Screen) -> None:
    assert press(screen, key)


def test_left_does_not_quit(screen: Screen) -> None:
    assert not press(screen, "left", "backspace")


def test_queues_are_sorted_by_a_column_and_back(screen: Screen) -> None:
    def first() -> str:
        return shown(screen).splitlines()[3].split()[0]

    assert first() == "images"
    press(screen, ">", ">")  # by waiting, the smallest first
    assert first() == "paused"
    press(screen, "r")
    assert first() == "images"
    press(screen, "<", "r")
    assert first() == "images"  # by name
    press(screen, "r")
    assert first() == "paused"


def test_rows_are_sorted_by_their_values_and_not_by_their_text(screen: Screen) -> None:
    press(screen, "enter", ">", "r")
    rows = [line.split()[0] for line in shown(screen).splitlines()[4:7]]
    assert rows == ["22", "21", "11"]


def test_a_filter_finds_requests(screen: Screen, store: Prepared) -> None:
    press(screen, "/", *"status:failed x", "backspace", "backspace")
    assert shown(screen).splitlines()[-1] == "find: status:failed█"
    press(screen, *" age>1h", "enter")
    assert store.asked[-1] == (
        "find",
        {"limit": 200, "statuses": ["Failed"], "min_age": timedelta(hours=1)},
    ) or store.asked[-1][1]["min_age"] == timedelta(hours=1)
    text = shown(screen)
    assert text.startswith("rowlease top  requests status:failed age>1h")
    assert "there may be more" in text
    press(screen, "down", "enter")
    assert shown(screen).startswith("rowlease top  request 32")


def test_a_wrong_filter_is_explained_and_can_be_mended(screen: Screen, store: Prepared) -> None:
    find(screen, "colour:red")
    assert "colour" in shown(screen).splitlines()[1]
    press(screen, "/", "clear", *"kind:a", "enter")
    assert shown(screen).startswith("rowlease top  requests kind:a")
    press(screen, "left")
    assert screen.navigation.view.page == "overview"


def test_a_filter_that_is_abandoned_changes_nothing(screen: Screen) -> None:
    press(screen, "/", *"queue:q", "escape")
    assert screen.navigation.view.page == "overview"
    assert shown(screen).endswith(KEYS)


def test_a_search_from_a_queue_begins_with_its_name(screen: Screen) -> None:
    press(screen, "enter", "/")
    assert shown(screen).splitlines()[-1] == "find: queue:images █"


def test_an_error_opens_its_requests(screen: Screen, store: Prepared) -> None:
    press(screen, "e", "enter")
    _, given = store.asked[-1]
    assert (given["queue"], given["kind"]) == ("images", "resize")
    assert given["error_pattern"] == 'no "answer" in # s'


def test_a_schedule_opens_its_last_request_and_a_load_its_requests(
    screen: Screen, store: Prepared
) -> None:
    press(screen, "s", "enter")
    assert shown(screen).startswith("rowlease top  request 41")
    press(screen, "l", "enter")
    assert store.asked[-1][1]["load_id"] == "flights"


def test_a_request_that_is_gone_is_a_page_too(screen: Screen) -> None:
    from rowlease.top.navigation import View

    screen.navigation.press("enter", [View("request", "99")], 0)
    screen.read()
    assert "there is no such request" in shown(screen)


def test_a_database_that_is_away_leaves_the_last_page_with_an_error(
    screen: Screen, store: Prepared
) -> None:
    store.error = StoreUnavailable("cannot reach it\nnow")
    screen.read()
    assert "cannot reach it" in shown(screen)
    assert "images" in shown(screen)
    store.error = StoreError("never")
    with pytest.raises(StoreError):
        screen.read()


def test_the_database_is_read_once_a_second_and_when_a_page_opens(
    screen: Screen, store: Prepared
) -> None:
    at = 100.0
    for at, keys, reads in ((100.0, "", 1), (100.5, "down", 0), (100.9, "", 0), (101.0, "", 1)):
        before = len(store.asked)
        screen.follow(Typed(*[keys] if keys else []), clock=lambda at=at: at)  # type: ignore[misc]
        assert len(store.asked) - before == reads, at
    assert at == 101.0


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"\x1b[A\x1b[Bq", ["up", "down", "q"]),
        (b"\x1bOC\x1b", ["right", "escape"]),
        (b"\x1b[5~\x1b[1;5C\x1b[Z", ["page up"]),
        ("ä/\r\x7f".encode(), ["ä", "/", "enter", "backspace"]),
        (b"\x00\x01\x04", ["interrupt"]),
        (b"\x15x", ["clear", "x"]),
        (b"\xff", ["\N{REPLACEMENT CHARACTER}"]),
    ],
)
def test_bytes_are_read_as_keys(data: bytes, names: list[str]) -> None:
    assert keys_of(data) == names


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        ((), ""),
        ((0, 0), "▁▁"),
        ((0, 4, 8), "▁▄█"),
        ((7,), "█"),
        (tuple(range(60)), "▁▁▁▂▂▃▃▃▄▄▄▅▅▅▆▆▆▇▇█"),
    ],
)
def test_a_sparkline_ends_with_the_newest_value(values: tuple[int, ...], bars: str) -> None:
    assert sparkline(values) == bars
