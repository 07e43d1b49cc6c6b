"""A handle means its own request, also when a database assigns its id to another one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from rowlease import Client, NoResult, task
from rowlease.client.handle import Handle
from rowlease.errors import InvalidRequest, StoreError
from rowlease.model import Failure, Outcome
from tests.contract.sessions import Session

NOW = timedelta(0)


@task
def double(number: int) -> int:
    return 2 * number


@pytest.fixture
def client(dsn: str, store: Session) -> Iterator[Client]:
    store.freeze(None)  # the client's own connections have the real time
    with Client(dsn) as opened:
        yield opened


def test_an_id_is_a_number(client: Client) -> None:
    with pytest.raises(InvalidRequest, match="request_id is 'abc'; it must be the number"):
        client.get("abc")  # type: ignore[call-overload]


def replace(store: Session, handle: Handle[Any]) -> int:
    """Another request, enqueued at another time, has the id now: a restored server assigned it."""
    (time,) = store.rows("queue", "requested_time", request_id=handle.request_id)[0]
    store.forge("queue", handle.request_id, requested_time=time - timedelta(microseconds=1))
    return handle.request_id


@pytest.mark.parametrize("way", ["one", "many", "with a key", "in a transaction"])
def test_another_request_with_the_id_of_a_handle_is_left_alone(
    dsn: str, store: Session, client: Client, way: str
) -> None:
    match way:
        case "one":
            handle = client.enqueue(double, 1)
        case "many":
            handle, _ = client.enqueue_many([double.request(1), double.request(2)])
        case "with a key":
            handle = client.enqueue(double.with_options(dedup_key="k"), 1)
        case _:
            connection = store.driver_connection()
            handle = client.bind(connection).enqueue(double, 1)
            connection.commit()
            connection.close()
    assert handle.status() == "Pending"
    other = replace(store, handle)
    assert handle.status() is None
    assert handle.read() is None
    assert handle.cancel() is Outcome.NOT_FOUND
    with pytest.raises(NoResult, match="another request has this id now") as raised:
        handle.result()  # and does not wait for it
    assert (raised.value.status, raised.value.is_another) == (None, True)
    assert client.get(other).status() == "Pending"
    store.fail(store.claim(), [Failure("x", dead=True)])
    assert client.get(other).status() == "Failed"
    assert handle.requeue() is Outcome.NOT_FOUND
    assert client.get(other).requeue() is Outcome.OK
    assert client.get(other).cancel() is Outcome.OK


def test_a_handle_of_an_earlier_request_means_that_one(store: Session, client: Client) -> None:
    first = client.enqueue(double.with_options(dedup_key="k", receipt="r"), 1)
    for again in (
        client.enqueue(double.with_options(dedup_key="k"), 2),
        client.enqueue(double.with_options(dedup_key="k", receipt="r"), 1),
        client.enqueue_many([double.request(1)], receipt="r")[0],
    ):
        assert again.outcome in (Outcome.DUPLICATE, Outcome.REPEAT)
        assert again.request_id == first.request_id
        assert again.status() == "Pending"
    store.complete(store.claim(), ["2"])
    finished = client.enqueue(double.with_options(dedup_key="k", receipt="r"), 1)
    assert (finished.outcome, finished.result(NOW)) == (Outcome.REPEAT, 2)
    assert first.result(NOW) == 2


@pytest.mark.parametrize("keeps", [True, False])
def test_a_handle_knows_its_request_until_the_end(
    store: Session, client: Client, keeps: bool
) -> None:
    store.configure_queue("default", keep_history=keeps)
    handle = client.enqueue(double, 1)
    store.fail(store.claim(), [Failure("x", dead=True)])
    assert handle.status() == "Failed"
    assert handle.requeue() is Outcome.OK
    assert handle.status() == "Pending"
    store.complete(store.claim(), ["2"])
    assert handle.result(NOW) == (2 if keeps else None)


@pytest.mark.only_on("postgresql", why="ids come from another kind of sequence there")
def test_an_id_that_is_assigned_again_is_refused_with_a_remedy(
    store: Session, client: Client
) -> None:
    handle = client.enqueue(double, 1)
    store.execute("select setval('rowlease.queue_request_id_seq', %s, false)", [handle.request_id])
    with pytest.raises(
        StoreError, match=r"request id is in use already.*`rowlease migrate` advances"
    ) as no:
        client.enqueue(double, 2)
    assert not no.value.transient
    assert client.enqueue(double, 3).request_id > handle.request_id
