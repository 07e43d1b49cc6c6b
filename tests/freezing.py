"""A proxy before a database that goes silent: it acknowledges all and passes nothing on."""

from __future__ import annotations

import threading

from tests.spark.lost_answer import Proxy


class Freezer(Proxy):
    """Passes everything on until it is frozen. Data of a frozen session waits for `thaw`.

    Attributes:
        num_sessions: how many have sent something.
    """

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self._sessions: set[int] = set()
        self._frozen: set[int] = set()
        self._only_answers = False
        self.num_sessions = 0
        self._new_ones = False
        self._moving = threading.Event()
        self._moving.set()

    def freeze(self, *, new_ones: bool = False, only_answers: bool = False) -> None:
        """Go silent on the sessions that are open now.

        Args:
            new_ones: also on those that are opened later; they are accepted.
            only_answers: what clients send still reaches the server.
        """
        self._frozen = set(self._sessions)
        self._new_ones, self._only_answers = new_ones, only_answers
        self._moving.clear()

    def thaw(self) -> None:
        """Pass on what has waited, and everything from now on."""
        self._frozen = set()
        self._new_ones = False
        self._moving.set()

    def passes(self, client: int, data: bytes, is_answer: bool) -> bool:
        if client not in self._sessions and not self._new_ones:
            self._sessions.add(client)
            self.num_sessions += 1
        is_frozen = client in self._frozen or (self._new_ones and client not in self._sessions)
        if is_frozen and (is_answer or not self._only_answers):
            self._moving.wait()
        return True

    def __exit__(self, *error: object) -> None:
        self.thaw()
        super().__exit__(*error)
