"""What the shop does in the background: `rowlease worker tasks` runs it."""

import logging

from rowlease import DeadLetter, task


@task(max_attempts=3)
def write_receipt(order: int, address: str) -> str:
    if "@" not in address:
        raise DeadLetter(f"{address!r} is no address")
    return f"{address}: thank you for order {order}"


@task
def send(text: str) -> int:
    logging.info(text)  # a real shop sends a mail
    return len(text)


@task(cron="0 3 * * *")
def clean_up() -> None: ...
