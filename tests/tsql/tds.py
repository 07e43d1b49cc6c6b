"""SQL Server's protocol, as a server speaks it: packets, tokens and types.

Source: [MS-TDS], 2.2.3 (packets), 2.2.5 (types), 2.2.6 (what a client sends) and 2.2.7 (tokens).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any, NamedTuple


class Kind(IntEnum):
    """The kinds of messages of a client, and the one of a server's answers."""

    BATCH = 0x01
    RPC = 0x03
    ANSWER = 0x04
    ATTENTION = 0x06
    BULK = 0x07
    TRANSACTION = 0x0E
    LOGIN = 0x10
    PRELOGIN = 0x12


#: A packet's header: kind, status, length with the header, process, number of the packet, window.
HEADER = struct.Struct(">BBHHBB")
#: In a packet's status: it is the last of its message.
LAST = 1
#: Bytes of a packet, which are also the size that the server tells the client to use.
PACKET = 4096
#: SQL_Latin1_General_CP1_CI_AS.
COLLATION = bytes.fromhex("0904d00034")
#: The length of a value of (max) is not known beforehand.
MAX = 0xFFFF
BEGIN, COMMIT, ROLLBACK = 8, 9, 10
#: The procedures that have a number in place of a name.
PROCEDURES = {
    10: "sp_executesql", 11: "sp_prepare", 12: "sp_execute", 13: "sp_prepexec",
    14: "sp_prepexecrpc", 15: "sp_unprepare",
}  # fmt: skip


class Value(NamedTuple):
    """A parameter of a procedure, or a column of a row."""

    name: str
    type: str
    value: Any


class Column(NamedTuple):
    name: str
    type: str


class Call(NamedTuple):
    """A procedure that a client calls, with its parameters."""

    name: str
    values: list[Value]


# -- messages ------------------------------------------------------------------------------------


def read_message(client: socket.socket) -> tuple[Kind, bytes]:
    body = b""
    while True:
        kind, status, length, *_ = HEADER.unpack(_exactly(client, HEADER.size))
        body += _exactly(client, length - HEADER.size)
        if status & LAST:
            return Kind(kind), body


def _exactly(client: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        if not (more := client.recv(size - len(found))):
            raise EOFError
        found += more
    return found


def packets(body: bytes) -> bytes:
    """A message in as many packets as it takes."""
    room = PACKET - HEADER.size
    parts = [body[at : at + room] for at in range(0, len(body), room)] or [b""]
    return b"".join(
        HEADER.pack(Kind.ANSWER, LAST * (n == len(parts)), len(part) + HEADER.size, 0, n % 256, 0)
        + part
        for n, part in enumerate(parts, 1)
    )


# -- what a client sends ---------------------------------------------------------------------------


class Reader:
    """Reads values from the body of a message."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._body)

    def peek(self) -> int:
        return self._body[self._at]

    def take(self, size: int) -> bytes:
        self._at += size
        return self._body[self._at - size : self._at]

    def number(self, size: int, *, signed: bool = False) -> int:
        return int.from_bytes(self.take(size), "little", signed=signed)

    def text(self, size_of_length: int = 1) -> str:
        return self.take(2 * self.number(size_of_length)).decode("utf-16-le")

    def rest(self) -> str:
        return self.take(len(self._body) - self._at).decode("utf-16-le")

    def all_headers(self) -> int:
        """The number of the transaction in which a request is to run."""
        ends = self._at + self.number(4)
        transaction = 0
        while self._at < ends:
            after = self._at + self.number(4)
            if self.number(2) == 2:
                transaction = self.number(8)
            self._at = after
        return transaction

    def calls(self) -> Iterator[Call]:
        """The procedures of a message, which is after its headers."""
        while not self.is_at_end:
            length = self.number(2)
            name = (
                PROCEDURES.get(number := self.number(2), f"procedure {number}")
                if length == MAX
                else self.take(2 * length).decode("utf-16-le")
            )
            self.number(2)  # options
            values = []
            while not self.is_at_end and self.peek() < 0x80:
                parameter = self.text()
                self.number(1)  # flags
                values.append(Value(parameter, *self.typed()))
            if not self.is_at_end:
                self.number(1)  # what separates two calls
            yield Call(name, values)

    def typed(self) -> tuple[str, Any]:
        """A type with a value."""
        kind = self.type()
        return kind, self.value(kind)

    def type(self) -> str:
        """A type as SQL writes it."""
        token = self.number(1)
        if token in FIXED:
            return FIXED[token]
        if token in SIZED:
            return SIZED[token][self.number(1)]
        if token in TEXTS:
            name, width, is_text = TEXTS[token]
            size = self.number(2)
            if is_text:
                self.take(len(COLLATION))
            return f"{name}({'max' if size == MAX else size // width})"
        if token == DATETIME2:
            return f"datetime2({self.number(1)})"
        raise NotImplementedError(f"type {token:#x}")

    def value(self, kind: str) -> Any:
        name, _, size = kind.partition("(")
        if kind.endswith(" not null"):
            return self._number(name.removesuffix(" not null"), LENGTHS[kind.split()[0]])
        if name in LENGTHS:
            length = self.number(1)
            return self._number(name, length) if length else None
        if name in ("nvarchar", "nchar", "varchar", "char", "varbinary", "binary"):
            raw = self._chunks() if size == "max)" else self._short()
            if raw is None or name.endswith("binary"):
                return raw
            return raw.decode("utf-16-le" if name[0] == "n" else "cp1252")
        if name == "datetime2":
            length = self.number(1)
            return self._time(self.take(length), int(size.rstrip(")"))) if length else None
        raise NotImplementedError(kind)

    def _number(self, name: str, length: int) -> Any:
        if name in ("float", "real"):
            return struct.unpack("<d" if length == 8 else "<f", self.take(length))[0]
        found = self.number(length, signed=name != "tinyint")
        return bool(found) if name == "bit" else found

    def _short(self) -> bytes | None:
        length = self.number(2)
        return None if length == MAX else self.take(length)

    def _chunks(self) -> bytes | None:
        if self.number(8) == 2**64 - 1:
            return None
        found = b""
        while length := self.number(4):
            found += self.take(length)
        return found

    @staticmethod
    def _time(raw: bytes, scale: int) -> datetime:
        ticks, days = int.from_bytes(raw[:-3], "little"), int.from_bytes(raw[-3:], "little")
        return datetime(1, 1, 1) + timedelta(days=days, microseconds=ticks * 10**6 // 10**scale)

    def rows(self) -> tuple[list[Column], list[list[Any]]]:
        """The columns and the rows of a bulk copy."""
        columns: list[Column] = []
        rows = []
        while not self.is_at_end:
            match self.number(1):
                case 0x81:
                    for _ in range(self.number(2)):
                        self.number(6)  # user type, flags
                        kind = self.type()
                        columns.append(Column(self.text(), kind))
                case 0xD1:
                    rows.append([self.value(column.type) for column in columns])
                case 0xFD:
                    self.number(12)
                case token:
                    raise NotImplementedError(f"token {token:#x} in a bulk copy")
        return columns, rows


FIXED = {
    0x30: "tinyint not null", 0x32: "bit not null", 0x34: "smallint not null",
    0x38: "int not null", 0x3E: "float not null", 0x7F: "bigint not null",
}  # fmt: skip
SIZED = {
    0x26: {1: "tinyint", 2: "smallint", 4: "int", 8: "bigint"}, 0x68: {1: "bit"},
    0x6D: {4: "real", 8: "float"},
}  # fmt: skip
LENGTHS = {
    "tinyint": 1, "bit": 1, "smallint": 2, "int": 4, "bigint": 8, "float": 8, "real": 4,
}  # fmt: skip
#: Name, bytes of a character, whether there is a collation.
TEXTS = {
    0xE7: ("nvarchar", 2, True), 0xEF: ("nchar", 2, True), 0xA7: ("varchar", 1, True),
    0xAF: ("char", 1, True), 0xA5: ("varbinary", 1, False), 0xAD: ("binary", 1, False),
}  # fmt: skip
DATETIME2 = 0x2A


# -- what a server answers -------------------------------------------------------------------------


def prelogin() -> bytes:
    # Version, encryption (not supported), instance, thread, several result sets at once.
    options = [bytes((16, 0, 0, 0, 0, 0)), b"\x02", b"\0", b"", b"\0"]
    place = 5 * len(options) + 1
    head = b""
    for token, data in enumerate(options):
        head += struct.pack(">BHH", token, place, len(data))
        place += len(data)
    return head + b"\xff" + b"".join(options)


def logged_in(database: str) -> bytes:
    body = b"\x01\x74\x00\x00\x04" + _b("Microsoft SQL Server") + bytes((16, 0, 3, 232))
    return (
        _changed(1, _b(database) + _b("master"))
        + _changed(7, bytes([len(COLLATION)]) + COLLATION + b"\0")
        + _changed(2, _b("us_english") + _b(""))
        + _token(0xAD, body)
        + _changed(4, _b(str(PACKET)) + _b("4096"))
        + done()
    )


def transaction(what: int, number: int) -> bytes:
    """A transaction has begun, was committed or was rolled back."""
    name = b"\x08" + struct.pack("<Q", number)
    return _changed(what, name + b"\0" if what == BEGIN else b"\0" + name)


def error(number: int, message: str, severity: int = 16, procedure: str = "") -> bytes:
    """An error; below severity 11, information."""
    text = message.encode("utf-16-le")
    body = struct.pack("<iBBH", number, 1, severity, len(message)) + text
    body += _b("fake") + _b(procedure) + struct.pack("<i", 1)
    return _token(0xAA if severity > 10 else 0xAB, body)


def columns(names: Sequence[Column]) -> bytes:
    body = b"\x81" + struct.pack("<H", len(names))
    for column in names:
        body += struct.pack("<IH", 0, 9) + _type(column.type) + _b(column.name)
    return body


def row(names: Sequence[Column], values: Sequence[Any]) -> bytes:
    pairs = zip(names, values, strict=True)
    return b"\xd1" + b"".join(_value(column.type, value) for column, value in pairs)


#: What a token of the family DONE says.
MORE, FAILED, IN_TRANSACTION, COUNTED, STOPPED = 1, 2, 4, 0x10, 0x20


def done(status: int = 0, count: int = 0, token: int = 0xFD) -> bytes:
    return struct.pack("<BHHQ", token, status, 0xC1, count)


def done_in_procedure(status: int, count: int = 0) -> bytes:
    return done(status | MORE, count, 0xFF)


def done_procedure(status: int) -> bytes:
    """The status that the procedure returned, and its end."""
    return b"\x79" + struct.pack("<i", -6 if status & FAILED else 0) + done(status, 0, 0xFE)


def output(value: int) -> bytes:
    """An OUTPUT parameter: the number of a prepared statement."""
    return (
        b"\xac" + struct.pack("<H", 0) + _b("") + b"\x01" + struct.pack("<IH", 0, 0)
        + _type("int") + _value("int", value)
    )  # fmt: skip


def _b(text: str) -> bytes:
    return bytes([len(text)]) + text.encode("utf-16-le")


def _token(token: int, body: bytes) -> bytes:
    return struct.pack("<BH", token, len(body)) + body


def _changed(what: int, body: bytes) -> bytes:
    return _token(0xE3, bytes([what]) + body)


def _type(name: str) -> bytes:
    base, _, size = name.rstrip(")").partition("(")
    for token, sizes in SIZED.items():
        for length, known in sizes.items():
            if known == base:
                return bytes((token, length))
    for token, (known, width, is_text) in TEXTS.items():
        if known == base:
            length = MAX if size == "max" else width * int(size)
            return bytes([token]) + struct.pack("<H", length) + COLLATION * is_text
    if base == "datetime2":
        return bytes((DATETIME2, int(size)))
    raise NotImplementedError(name)


def _value(name: str, value: Any) -> bytes:
    base, _, size = name.partition("(")
    if base in LENGTHS:
        length = LENGTHS[base]
        if value is None:
            return b"\0"
        if base in ("float", "real"):
            return bytes([length]) + struct.pack("<d" if length == 8 else "<f", value)
        return bytes([length]) + int(value).to_bytes(length, "little", signed=base != "tinyint")
    if base == "datetime2":
        return _time(value, int(size.rstrip(")")))
    raw: bytes | None = value
    if isinstance(value, str):
        raw = value.encode("utf-16-le" if base[0] == "n" else "cp1252")
    if size == "max)":
        if raw is None:
            return b"\xff" * 8
        chunk = struct.pack("<I", len(raw)) + raw if raw else b""
        return struct.pack("<Q", len(raw)) + chunk + bytes(4)
    return b"\xff\xff" if raw is None else struct.pack("<H", len(raw)) + raw


def _time(value: datetime | None, scale: int) -> bytes:
    if value is None:
        return b"\0"
    since = value - datetime(1, 1, 1)
    ticks: int = (since.seconds * 10**6 + since.microseconds) * 10**scale // 10**6
    raw = ticks.to_bytes(3 if scale < 3 else 4 if scale < 5 else 5, "little")
    raw += since.days.to_bytes(3, "little")
    return bytes([len(raw)]) + raw
