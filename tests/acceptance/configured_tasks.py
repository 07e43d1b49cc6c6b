"""Tasks in a module that sets up logging, as applications and frameworks do."""

from __future__ import annotations

import logging.config
import os

from rowlease.tasks.task import task

CONSOLE = {"class": "logging.StreamHandler", "stream": "ext://sys.stdout"}
FILE = {"class": "logging.FileHandler", "filename": os.environ.get("LOG_OF_TEST", os.devnull)}
logging.config.dictConfig(
    {
        "version": 1,
        "handlers": {"console": CONSOLE, "error": {"class": "logging.StreamHandler"}, "file": FILE},
        "root": {"handlers": ["console"]},
        "loggers": {
            "shop": {"handlers": ["error", "file"], "level": "INFO", "propagate": False},
            "shop.mail": {"handlers": ["console"]},
        },
    }
)


@task
def sell() -> None:
    logging.getLogger("shop").info("sold")
    logging.getLogger("shop.mail").info("sent")
    logging.getLogger("other").warning("done")
