"""A shop with one page. An order and the chain of its tasks are stored together, or not at all."""

import os
from html import escape
from typing import Annotated
from urllib.parse import parse_qs

import psycopg
from fastapi import Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from tasks import send, write_receipt

from rowlease import AsyncClient, chain
from rowlease.integrations.fastapi import Rowlease

rowlease = Rowlease()
app = FastAPI(lifespan=rowlease.lifespan)
Rows = Annotated[AsyncClient, Depends(rowlease)]

PAGE = """<!doctype html><title>Shop</title><meta http-equiv="refresh" content="2">
<form method="post"><input name="address" placeholder="ann@example.org"><button>Order</button>
</form>
<table>{rows}</table>"""


async def shop() -> psycopg.AsyncConnection:
    """A connection to the database of rowlease, in which the shop has its table, too."""
    connection = await psycopg.AsyncConnection.connect(os.environ["ROWLEASE_DSN"])
    await connection.execute("create table if not exists shop_order (id serial, address text)")
    return connection


@app.post("/")
async def order(request: Request, client: Rows) -> RedirectResponse:
    (address,) = parse_qs((await request.body()).decode()).get("address", [""])
    async with await shop() as connection:  # one transaction
        found = await connection.execute(
            "insert into shop_order (address) values (%s) returning id", [address]
        )
        ((number,),) = await found.fetchall()
        links = chain(write_receipt.s(number, address), send.s())
        await client.bind(connection).enqueue_batch([links], batch_id=f"order {number}")
    return RedirectResponse("/", status_code=303)


@app.get("/")
async def orders(client: Rows) -> HTMLResponse:
    async with await shop() as connection:
        found = await connection.execute("select * from shop_order order by id desc limit 20")
        rows = ""
        for number, address in await found.fetchall():
            state = await client.batch(f"order {number}").read()
            done = state.num_complete if state else 0
            failed = " (failed)" if state and state.num_failed else ""
            rows += f"<tr><td>{number}<td>{escape(address)}<td>{done} of 2 done{failed}"
    return HTMLResponse(PAGE.format(rows=rows))
