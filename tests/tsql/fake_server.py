"""A server that speaks SQL Server's protocol, executes nothing, and gives scripted answers.

Microsoft's own drivers talk to it, so that tests see what the drivers send: how many messages,
which types, and which transactions. It knows no SQL: a rule gives the answer to each statement
that matches a pattern. What no rule knows is answered with "done", a query with no rows.
"""

from __future__ import annotations

import re
import select
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from itertools import count
from typing import Any, NamedTuple, Self

from tests.tsql import tds
from tests.tsql.tds import Call, Column, Kind, Reader, Value

#: What a client asks of a transaction.
BEGIN, COMMIT, ROLLBACK = 5, 7, 8
TRANSACTIONS = {BEGIN: "begin", COMMIT: "commit", ROLLBACK: "rollback"}
#: Where the statement of a procedure of the driver's is, among its parameters.
STATEMENTS = {"sp_executesql": 0, "sp_prepare": 2, "sp_prepexec": 2, "sp_prepexecrpc": 1}
#: The types of the columns of `Rows`, if it names none.
TYPES = {bool: "bit", int: "bigint", str: "nvarchar(max)", float: "float", datetime: "datetime2(6)"}
#: What SQLAlchemy asks at its first connection.
SQLALCHEMY = {
    r"SERVERPROPERTY\('ProductVersion'\)": "16.0.4000.1",
    r"SELECT schema_name\(\)": "dbo",
    "FROM sys.system_views WHERE name IN": "dm_exec_sessions",
    "CASE transaction_isolation_level": "READ COMMITTED",
    "SELECT CAST\\('test max support'": "test max support",
}


class Rows:
    """A result set. Without `columns`, the first row's values decide the types."""

    def __init__(self, *rows: Sequence[Any], columns: Sequence[tuple[str, str]] = ()) -> None:
        self.rows = rows
        first = rows[0] if rows else ()
        self.columns = [Column(*each) for each in columns] or [
            Column(f"c{n}", TYPES.get(type(value), "nvarchar(max)"))
            for n, value in enumerate(first)
        ]


class Failure(NamedTuple):
    """An error. As under XACT_ABORT, it rolls an open transaction back, unless it `keeps` it."""

    number: int
    message: str = "a failure"
    keeps: bool = False
    severity: int = 16


class Cut(NamedTuple):
    """The connection ends in the middle of the answer."""


class Late(NamedTuple):
    """What comes next comes after this time, or never if the client asks to stop before."""

    seconds: float


Part = Rows | Failure | Cut | Late
#: One part, or several in turn: result sets, and an error after them.
Answer = Part | Sequence[Part]


class Request(NamedTuple):
    """What a client sent.

    Attributes:
        connection: the number of the connection, from 1.
        kind: the kind of the message.
        name: the procedure of the driver's, `begin`, `commit` or `rollback`; else empty.
        text: the statement, or the name of the procedure.
        values: the parameters of the statement; of a bulk copy, the columns with a list of values.
        in_transaction: whether a transaction was open before it.
    """

    connection: int
    kind: Kind
    name: str
    text: str
    values: list[Value]
    in_transaction: bool


class FakeServer:
    """Listens on the loopback until the block ends.

    Attributes:
        requests: what came, in order; prelogin and login too.
        deaf_to: kinds of messages that it reads and does not answer.
        refuses: the error with which it answers a login, if any.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.deaf_to: set[int] = set()
        self.refuses: Failure | None = None
        self._numbers, self._lock = count(1), threading.Lock()
        self._rules: list[tuple[re.Pattern[str], list[Answer]]] = []
        for pattern, row in SQLALCHEMY.items():
            self.answer(pattern, Rows([row]))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._clients: list[socket.socket] = []

    @property
    def dsn(self) -> str:
        return f"mssql://sa:secret@127.0.0.1:{self.port}/db?Encrypt=no"

    def answer(self, pattern: str, *answers: Answer) -> None:
        """Give these answers in turn to statements that match, and the last one from then on.

        A pattern is a regular expression; blanks in it stand for any white space. Of two rules,
        the later one counts.
        """
        expression = re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE)
        with self._lock:
            self._rules.insert(0, (expression, list(answers)))

    def answer_for(self, text: str) -> Sequence[Part]:
        with self._lock:
            for pattern, answers in self._rules:
                if pattern.search(text):
                    found = answers.pop(0) if len(answers) > 1 else answers[0]
                    return [found] if isinstance(found, Part) else found
        return []

    def heard(self, kind: Kind) -> int:
        """How many messages of a kind came."""
        return sum(request.kind == kind for request in self.requests)

    def forget(self) -> None:
        """Forget what came, to count what comes from now on."""
        self.requests.clear()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in [self._listener, *self._clients]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._clients.append(client)
                connection = _Connection(self, client, next(self._numbers))
                threading.Thread(target=connection.serve, daemon=True).start()


class _Connection:
    """One connection, with its transaction and its prepared statements."""

    def __init__(self, server: FakeServer, client: socket.socket, number: int) -> None:
        self._server, self._client, self._number = server, client, number
        self._handles, self._transactions = count(1), count(1)
        self._prepared: dict[int, str] = {}
        self._transaction = 0
        self._is_implicit = False

    def serve(self) -> None:
        with suppress(OSError, EOFError), self._client:
            while True:
                kind, body = tds.read_message(self._client)
                answer = self._answered(kind, Reader(body))
                if kind in self._server.deaf_to:
                    continue
                if answer is None:
                    return
                self._client.sendall(tds.packets(answer))

    def _heard(
        self, kind: Kind, name: str = "", text: str = "", values: Sequence[Value] = ()
    ) -> None:
        self._server.requests.append(
            Request(self._number, kind, name, text, list(values), bool(self._transaction))
        )

    def _answered(self, kind: Kind, body: Reader) -> bytes | None:
        """The answer to a message; None if the connection is to end."""
        match kind:
            case Kind.PRELOGIN:
                self._heard(kind)
                return tds.prelogin()
            case Kind.LOGIN:
                self._heard(kind)
                return self._login()
            case Kind.ATTENTION:
                self._heard(kind)
                return tds.done(tds.STOPPED)
            case Kind.TRANSACTION:
                return self._manage(body)
            case Kind.BULK:
                return self._bulk(body)
            case Kind.BATCH:
                body.all_headers()
                text = body.rest()
                self._heard(kind, text=text)
                return self._run(text, tds.done)
            case Kind.RPC:
                body.all_headers()
                answers = [self._call(call) for call in body.calls()]
                return None if None in answers else b"".join(filter(None, answers))
        raise NotImplementedError(kind)

    def _login(self) -> bytes | None:
        refused = self._server.refuses
        if refused is None:
            return tds.logged_in("db")
        found = tds.error(refused.number, refused.message, 14) + tds.done(tds.FAILED)
        self._client.sendall(tds.packets(found))
        return None

    # -- transactions ------------------------------------------------------------------------------

    def _manage(self, body: Reader) -> bytes:
        body.all_headers()
        what = body.number(2)
        self._heard(Kind.TRANSACTION, TRANSACTIONS.get(what, f"transaction {what}"))
        if what == BEGIN:
            return self._begin() + tds.done()
        if not self._transaction:
            missing = "The request has no corresponding BEGIN TRANSACTION."
            return tds.error(3902 if what == COMMIT else 3903, missing) + tds.done(tds.FAILED)
        return self._end(tds.COMMIT if what == COMMIT else tds.ROLLBACK) + tds.done()

    def _begin(self) -> bytes:
        self._transaction = next(self._transactions)
        return tds.transaction(tds.BEGIN, self._transaction)

    def _end(self, how: int) -> bytes:
        ended, self._transaction = self._transaction, 0
        return tds.transaction(how, ended) if ended else b""

    def _follow(self, text: str) -> bytes:
        """What a statement that a driver or a store sends by itself does to the transaction."""
        code = " ".join(text.lower().split())
        if found := re.fullmatch(r"set implicit_transactions (on|off)", code):
            self._is_implicit = found[1] == "on"
        elif found := re.fullmatch(
            r"(?:if @@trancount > 0 )?(begin|commit|rollback) tran(?:saction)?;?", code
        ):
            if found[1] == "begin":
                return self._begin()
            return self._end(tds.COMMIT if found[1] == "commit" else tds.ROLLBACK)
        elif self._is_implicit and not self._transaction and not code.startswith(("set ", "if ")):
            return self._begin()
        return b""

    # -- statements --------------------------------------------------------------------------------

    def _call(self, call: Call) -> bytes | None:
        name, values = call
        text = name
        handle = b""
        if name in STATEMENTS:
            place = STATEMENTS[name]
            text = str(values[place].value)
            if name != "sp_executesql":
                number = next(self._handles)
                self._prepared[number] = text
                handle = tds.output(number)
            values = values[max(place + 1, 2) :]
        elif name == "sp_execute":
            text, values = self._prepared[values[0].value], values[1:]
        elif name == "sp_unprepare":
            self._prepared.pop(values[0].value, None)
        own = name in tds.PROCEDURES.values()
        self._heard(Kind.RPC, name if own else "", text, values)
        if name in ("sp_prepare", "sp_unprepare"):
            return handle + tds.done_procedure(0)
        return self._run(text, lambda status: handle + tds.done_procedure(status), within=True)

    def _run(self, text: str, end: Any, *, within: bool = False) -> bytes | None:
        """The answer to a statement, of which `end` makes the last tokens."""
        answer = self._follow(text)
        parts = self._server.answer_for(text)
        if not parts and (
            query := re.match(r"\s*select\b(\s+@@trancount\b)?", text, re.IGNORECASE)
        ):
            found = [[int(bool(self._transaction))]] if query[1] else []
            parts = [Rows(*found, columns=[("", "int")])]
        between = tds.done_in_procedure if within or text.lower().startswith("exec") else _done_more
        status = 0
        for part in parts:
            if isinstance(part, Late):
                if self._is_told_to_stop(part.seconds):
                    return answer + self._end(tds.ROLLBACK) + tds.done(tds.STOPPED)
                continue
            if isinstance(part, Cut):
                self._cut(answer)
                return None
            if isinstance(part, Rows):
                answer += tds.columns(part.columns)
                answer += b"".join(tds.row(part.columns, row) for row in part.rows)
                answer += between(tds.COUNTED, len(part.rows))
            else:
                answer += tds.error(part.number, part.message, part.severity)
                if part.severity > 10:
                    status = tds.FAILED
                    answer += b"" if part.keeps else self._end(tds.ROLLBACK)
                if part.severity >= 20:
                    self._client.sendall(tds.packets(answer + tds.done(status)))
                    return None
        return answer + bytes(end(status | (tds.IN_TRANSACTION if self._transaction else 0)))

    def _is_told_to_stop(self, seconds: float) -> bool:
        if not select.select([self._client], [], [], seconds)[0]:
            return False
        kind, _ = tds.read_message(self._client)
        self._heard(kind)
        return kind == Kind.ATTENTION

    def _cut(self, answer: bytes) -> None:
        whole = tds.packets(answer + tds.done())
        self._client.sendall(whole[: max(tds.HEADER.size, len(whole) // 2)])

    def _bulk(self, body: Reader) -> bytes | None:
        columns, rows = body.rows()
        values = [
            Value(column.name, column.type, [row[n] for row in rows])
            for n, column in enumerate(columns)
        ]
        self._heard(Kind.BULK, values=values)
        parts = self._server.answer_for("bulk copy")
        if parts:
            return self._run("bulk copy", tds.done)
        return tds.done(tds.COUNTED, len(rows))


def _done_more(status: int, rows: int) -> bytes:
    return tds.done(status | tds.MORE, rows)
