"""Proxies that know at what moment a load is; there, something happens or all is cut off."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psutil

from tests.spark.lost_answer import Proxy

#: What happens, given the client's port; False: what is on its way does not arrive.
Act = Callable[[int], bool]
ROWS, BEFORE, AFTER = "first rows", "before its commit", "after its commit"
ASKED, ANSWERED = "promotion asked", "promotion answered"
#: How a statement begins that writes rows of a load.
STAGES = (b"insert into rowlease.load_inbox", b"copy rowlease.lane")
#: What ends a COPY, on its way to the server.
COPY_DONE = b"c\x00\x00\x00\x04"


class Meddler(Proxy):
    """Lets each act happen once, when its moment has come so often.

    Args:
        acts: for a moment, the how manieth of them, from 1, and the act.

    Attributes:
        happened: the moments whose act has been called.
        begun: how often a load has begun.
    """

    def __init__(self, dsn: str, acts: dict[str, tuple[int, Act]] | None = None) -> None:
        super().__init__(dsn)
        self._acts = dict(acts or {})
        self._doing: dict[int, str] = {}
        self._counts = dict.fromkeys((ROWS, BEFORE, AFTER, ASKED, ANSWERED), 0)
        self._turn = threading.Lock()
        self.happened: list[str] = []
        self.begun = 0

    def passes(self, client: int, data: bytes, is_answer: bool) -> bool:
        with self._turn:
            moment = self._moment(client, data, is_answer)
            self.begun += not is_answer and b"rowlease.begin_load" in data
            if moment is None:
                return True
            self._counts[moment] += 1
            if moment not in self._acts or self._acts[moment][0] != self._counts[moment]:
                return True
            _, act = self._acts.pop(moment)
            self.happened.append(moment)
        return act(client)

    def _moment(self, client: int, data: bytes, is_answer: bool) -> str | None:
        doing, moment = self._doing.get(client), None
        if is_answer:
            if doing == ASKED and b"SELECT 1\x00" in data:
                moment = ANSWERED
            elif doing in (ROWS, BEFORE) and (b"COMMIT\x00" in data or b"COPY " in data):
                moment = AFTER
        elif b"rowlease.promote" in data:
            moment = ASKED
        elif doing == ASKED and b"rowlease." in data:
            del self._doing[client]  # it asks for something else
        elif doing == ROWS and (b"COMMIT" in data or COPY_DONE in data):
            moment = BEFORE
        elif doing is None and any(start in data.lower() for start in STAGES):
            moment = ROWS
        if moment:
            self._doing[client] = moment
        return moment


class CutOff(Proxy):
    """Cuts off a connection, or the driver with all its tasks, at a packet of the client.

    Args:
        at: the number of the packet, from 1.
        arrives: whether the server gets the packet; its answer is lost in any case.
        is_death: whether all connections end, and no other one is made.

    Attributes:
        packets: how many the client has sent.
        first_call: the number of the first that calls a routine.
        met: whether the client sent the packet to cut off.
    """

    def __init__(self, dsn: str, at: int = 0, arrives: bool = False, is_death: bool = False):
        super().__init__(dsn)
        self._at, self._arrives, self._is_death = at, arrives, is_death
        self._cut: set[int] = set()
        self._turn = threading.Lock()
        self.packets = self.first_call = 0
        self.met = False

    def cut_next(self, *, arrives: bool) -> None:
        """Cut off whoever sends the next packet."""
        with self._turn:
            self._at, self._arrives, self.met = self.packets + 1, arrives, False

    def passes(self, client: int, data: bytes, is_answer: bool) -> bool:
        with self._turn:
            if client in self._cut or (self.met and self._is_death):
                return False
            self.packets += not is_answer
            if b"rowlease." in data and not is_answer:
                self.first_call = self.first_call or self.packets
            if is_answer or self.packets != self._at:
                return True
            self.met = True
            self._cut.add(client)
            return self._arrives


def executor_behind(port: int) -> psutil.Process | None:
    """The executor that a local connection belongs to, or whose Python worker it belongs to."""
    for connection in psutil.net_connections("tcp"):
        if connection.pid and connection.laddr and connection.laddr.port == port:
            try:
                process = psutil.Process(connection.pid)
                for each in (process, *process.parents()):
                    if is_executor(each):
                        return each
            except psutil.Error:
                return None
    return None


def is_executor(process: psutil.Process) -> bool:
    """Is it the JVM of an executor?"""
    try:
        return any("CoarseGrainedExecutorBackend" in word for word in process.cmdline())
    except psutil.Error:
        return False
