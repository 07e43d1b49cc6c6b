"""`pytest` runs the application and its tasks on a database of its own for each test."""

from collections.abc import Iterator

import pytest
from app import app
from fastapi.testclient import TestClient
from tasks import clean_up, send, write_receipt

from rowlease import Client
from rowlease.testing import drain

TASKS = [write_receipt, send, clean_up]


@pytest.fixture
def web(rowlease_dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setenv("ROWLEASE_DSN", rowlease_dsn)
    with TestClient(app) as opened:
        yield opened


def test_an_order_gets_its_receipt(web: TestClient, rowlease_client: Client) -> None:
    page = web.post("/", content="address=ann%40example.org").text
    assert "<td>ann@example.org<td>0 of 2 done" in page
    ran = drain(rowlease_client, TASKS)
    assert [one.result for one in ran] == ["ann@example.org: thank you for order 1", 38]
    assert "<td>ann@example.org<td>2 of 2 done" in web.get("/").text


def test_an_order_without_an_address_is_a_dead_letter(
    web: TestClient, rowlease_client: Client
) -> None:
    web.post("/", content="address=%3Cb%3E")
    drain(rowlease_client, TASKS)
    assert "<td>&lt;b&gt;<td>0 of 2 done (failed)" in web.get("/").text
    (dead,) = rowlease_client.find("status:failed").requests
    assert dead.last_error == "'<b>' is no address"
