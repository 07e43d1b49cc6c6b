"""The command line: each command that ends by itself, with hostile options and arguments."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import click
from hypothesis import strategies as st

from rowlease.cli import cli
from rowlease.declared_queues import QueueSettings
from tests.commands import in_test
from tests.fuzz.surfaces import Meet, Surface, Unexplained
from tests.fuzz.texts import filter_text
from tests.fuzz.values import (
    CRONS,
    DURATIONS,
    NUMBERS,
    SECRET,
    TIMES,
    ZONES,
    Draw,
    anything,
    fill,
    json_texts,
)

#: Commands that serve, wait for others, need Spark, start a server or another program.
LEFT_OUT = (
    "worker", "dashboard", "exporter", "up", "demo", "report", "spark-enqueue", "psql", "top",
    "migrate", "engines verify", "queue drain",
)  # fmt: skip
#: Options that would make a command wait, or read a file that the machine has.
LEFT_OUT_OPTIONS = ("--wait", "--lines", "--help")
DSNS = (
    "", " ", "x", "postgresql://", f"postgresql://u:{SECRET}@[::1", f"mssql://u:{SECRET}@",
    f"sqlite://u:{SECRET}@/x", f"postgresql://u:{SECRET}@127.0.0.1:1/d", f"postgres://u:{SECRET}@/d?x=1",
    f"postgresql://u:{SECRET}@127.0.0.1:99999/d", f"host=127.0.0.1 port=1 password={SECRET}",
    f"postgresql://u:{SECRET}@127.0.0.1:1/d?sslmode=x", f"jdbc:postgresql://u:{SECRET}@h/d",
    f"mssql://u:{SECRET}@127.0.0.1:1/d?Driver=x", f"//u:{SECRET}@h", f"postgresql://u:{SECRET}%zz@h/",
)  # fmt: skip
#: What rowlease or the error table of the driver did not explain: a bare text and its code.
BARE = re.compile(r"\((?:[0-9A-Z]{5}|\w+Error)\)(?: at .*)?$", re.MULTILINE)
EXIT_CODES = (0, 1, 2, 3, 4)


def commands_of(group: click.Group, path: tuple[str, ...] = ()) -> dict[str, click.Command]:
    found: dict[str, click.Command] = {}
    for name, one in group.commands.items():
        place = (*path, name)
        found |= commands_of(one, place) if isinstance(one, click.Group) else {}
        if not isinstance(one, click.Group) and " ".join(place) not in LEFT_OUT:
            found[" ".join(place)] = one
    return found


COMMANDS = commands_of(cli)
NAMES = sorted(COMMANDS)
settings_of_queues = st.builds(
    "{}={}".format,
    st.sampled_from([*QueueSettings.__annotations__, "x", ""]),
    st.one_of(anything, st.sampled_from([*NUMBERS, *DURATIONS, "none", "1/1s", "[1]"])),
)
odd = st.sampled_from([*NUMBERS, *TIMES, *DURATIONS, *CRONS, *ZONES])


class Typed(NamedTuple):
    """A command line."""

    routine: str
    words: list[str]


#: Right values, by the name of a parameter or of its type.
RIGHT = {
    "settings": ["capacity=7", "lease_seconds=9", "policy=aging"], "request_id": ["1", "3"],
    "duration": ["1s", "0", "7d"], "integer": ["1", "3"], "integer range": ["1", "3"],
    "terms": ["kind:a", "status:failed", "id:3"], "cron": ["* * * * *", "@daily"], "kind": ["a"],
    "payload": ["{}", '{"a":1}'], "time_zone": ["UTC"], "headers": ["a=b"], "name": ["default"],
    "at": ["2030-01-01T00:00"], "resume": ["1"], "queue": ["default", "mail"], "after": ["batch 1"],
}  # fmt: skip


def word(draw: Draw, param: click.Parameter) -> str:
    if not draw.is_rare():
        right = RIGHT.get(param.name or "") or RIGHT.get(param.type.name)
        return str(draw.one(right or ["default", "batch 1", "load 1"]))
    wrong = filter_text(draw) if draw.is_rare(5) else draw.any(anything, json_texts, odd)
    if draw.is_rare():
        wrong = draw.of(settings_of_queues)
    # An argument of a process is bytes, without a zero.
    return str(wrong).replace("\0", "").encode(errors="replace").decode()[:60_000]


def command_line(draw: Draw) -> Typed:
    name = draw.one(NAMES)
    words: list[str] = []
    for param in COMMANDS[name].params:
        one = param.opts[-1]
        if isinstance(param, click.Argument):
            number = draw.one([1, 1, 1, 2, 0] if param.nargs == -1 else [1])
            words += [word(draw, param) for _ in range(number)]
        elif one == "--dsn":
            words += [one, draw.one(DSNS)] if draw.is_rare(20) else []
        elif getattr(param, "is_flag", False):
            words += [one] if draw.is_rare(2) else []
        elif one == "--timeout":
            words += [one, "10ms"]
        elif one not in LEFT_OUT_OPTIONS and draw.is_rare():
            words += [one, word(draw, param)]
    return Typed(name, words)


@contextmanager
def opened(dsn: str) -> Iterator[Meet]:
    fill(dsn)
    with tempfile.TemporaryDirectory() as folder:
        run = in_test(Path(folder))

        def meet(line: Typed) -> bool:
            done = run(*line.routine.split(), *line.words, ROWLEASE_DSN=dsn)
            said = done.stdout + done.stderr
            # `rowlease url` prints the DSN for other programs.
            if "Traceback" in said or (SECRET in said and line.routine != "url"):
                raise Unexplained(f"it shows a traceback or a password: {said}")
            if done.returncode not in EXIT_CODES or BARE.search(done.stderr):
                raise Unexplained(f"exit code {done.returncode}: {done.stderr}")
            if done.returncode and not (done.stderr.strip() or done.stdout.strip()):
                raise Unexplained(f"exit code {done.returncode}, without a word")
            if done.returncode == 3 and "--dsn" not in line.words:
                raise Unexplained(f"it blames the database: {done.stderr}")
            return done.returncode != 0

        yield meet


SURFACE = Surface("the command line", command_line, opened, share=3)
