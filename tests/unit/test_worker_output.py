"""The pipe through which a child process logs and prints."""

from __future__ import annotations

import json
import logging
import os
import threading
from typing import Any

import pytest

from rowlease.worker.slots.output import MAX_LINE, PipeHandler, relay


def relayed(caplog: pytest.LogCaptureFixture, data: bytes) -> list[tuple[str, str]]:
    reader, writer = os.pipe()
    thread = threading.Thread(target=relay, args=(reader,))
    thread.start()
    with open(writer, "wb") as pipe:
        pipe.write(data)
    thread.join()
    return [(one.name, one.getMessage()) for one in caplog.records]


def printed(stream: str, text: str, **attributes: Any) -> bytes:
    return b"\n" + json.dumps([stream, attributes, text]).encode() + b"\n"


def test_a_line_that_was_cut_off_spoils_no_other(caplog: pytest.LogCaptureFixture) -> None:
    cut_off = printed("stdout", "lost")[:20]
    reader, writer = os.pipe()
    os.write(writer, cut_off)
    PipeHandler(writer).print("stdout", "whole\n")
    os.close(writer)
    relay(reader)
    assert [(one.name, one.getMessage()) for one in caplog.records] == [
        ("stderr", cut_off.decode().strip()),
        ("stdout", "whole"),
    ]


@pytest.mark.parametrize(
    "data", [b"{}\n", b"[1]\n", b'["x",{},"y"]\n', b'[null,{"levelno":"x"}]\n']
)
def test_what_a_task_wrote_into_the_pipe_is_a_printed_line(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    assert relayed(caplog, data) == [("stderr", data.decode().strip())]


def test_texts_are_joined_to_lines_of_each_stream(caplog: pytest.LogCaptureFixture) -> None:
    texts = [("stdout", "a"), ("stderr", "b\n"), ("stdout", " c"), ("stdout", "\n\nd")]
    data = b"".join(printed(stream, text) for stream, text in texts)
    assert relayed(caplog, data) == [
        ("stderr", "b"),
        ("stdout", "a c"),
        ("stdout", ""),
        ("stdout", "d"),
    ]


def test_a_line_without_an_end_is_logged_in_parts(caplog: pytest.LogCaptureFixture) -> None:
    found = relayed(caplog, printed("stdout", "x" * (MAX_LINE // 2)) * 3)
    assert [len(text) for _, text in found] == [MAX_LINE, MAX_LINE // 2]


def test_a_record_of_a_level_that_the_worker_does_not_log_is_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reader, writer = os.pipe()
    handler = PipeHandler(writer)
    quiet, loud = logging.getLogger("quiet"), logging.getLogger("loud")
    quiet.setLevel(logging.ERROR)
    try:
        for logger in (quiet, loud):
            handler.handle(logger.makeRecord(logger.name, 30, "x", 1, "%s", ("no",), None))
        os.close(writer)
        relay(reader)
    finally:
        quiet.setLevel(logging.NOTSET)
    assert [(one.name, one.getMessage()) for one in caplog.records] == [("loud", "no")]
