"""Clusters of Spark on this machine, and drivers that run pools on them."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from tests.spark.jvm import LEAN, worker_path

#: Seconds for anything that Spark does.
PATIENCE = 90.0
EXECUTOR = "CoarseGrainedExecutorBackend"
#: For a driver, instead of a URL: a standalone cluster in its own JVM.
STANDALONE = "standalone"


class Driver:
    """A program of its own that has a session on a cluster."""

    def __init__(self, master: str, folder: Path, **settings: str) -> None:
        python_path = worker_path(Path.cwd() / "src", Path.cwd())
        given = {
            "spark.master": master,
            "spark.app.name": "rowlease pool tests",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": LEAN,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": LEAN,
            "spark.executorEnv.PYTHONPATH": python_path,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": folder.as_uri(),
            **settings,
        }
        self.folder = folder
        self.port = ""
        (folder / "only_on_the_driver").mkdir()
        (folder / "only_on_the_driver" / "only_there.py").write_text(
            "from rowlease import task\n@task\ndef nap(): pass\n"
        )
        self.log = folder / "driver.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.pool_driver", json.dumps(given)],
                cwd=Path(__file__).resolve().parents[2],
                env={
                    **os.environ,
                    "PYTHONPATH": python_path,
                    "SPARK_LOCAL_DIRS": str(folder),
                    "ONLY_ON_THE_DRIVER": str(folder / "only_on_the_driver"),
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def start(self, tasks: str | None, dsn: str, **arguments: Any) -> None:
        """Have it call `work`."""
        self._ask({"tasks": tasks, "dsn": dsn, **arguments})

    def _ask(self, given: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(given) + "\n")
        self._process.stdin.flush()

    def load(self, way: str, dsn: str, rows: int) -> dict[str, int]:
        """Have it enqueue rows, and read the requests back; their number by status."""
        self._ask({"way": way, "dsn": dsn, "rows": rows})
        found: dict[str, int] = self.answer()["statuses"]
        return found

    def work(self, *arguments: Any, **others: Any) -> dict[str, Any]:
        """Have it call `work`, and wait for what that returns or raises."""
        self.start(*arguments, **others)
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """What came of the last call."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        line = self._process.stdout.readline() if ready else ""
        assert line, f"the driver says nothing: {self.log.read_text(errors='replace')[-3000:]}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def executors(self) -> list[psutil.Process]:
        """The JVMs of its executors, the oldest first."""
        mine = psutil.Process().children(recursive=True)
        each = [
            one
            for one in mine
            if EXECUTOR in (printed := " ".join(command_of(one))) and f":{self.port} " in printed
        ]
        return sorted(each, key=lambda one: one.create_time())

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def close(self) -> None:
        """End it, and all that it has started."""
        children = psutil.Process(self._process.pid).children(recursive=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
            for each in children:
                if each.is_running():
                    each.kill()


@contextmanager
def driver(master: str, folder: Path, **settings: str) -> Iterator[Driver]:
    """A driver whose session is up."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Driver(master, folder, **settings)
    try:
        made.port = made.answer()["port"]
        yield made
    finally:
        made.close()


def standalone(gateway: Any, folder: Path) -> str:
    """Start a master and two workers in the JVM of a driver; return the master's URL.

    Executors are processes of their own. Spark takes the workers for two hosts, because a copy of a
    task never runs on the host of the task.
    """
    deploy = gateway.jvm.org.apache.spark.deploy
    conf, none = gateway.jvm.org.apache.spark.SparkConf(), gateway.jvm.scala.Option.empty()
    conf.set("spark.master.rest.enabled", "false")
    started = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)
    masters = gateway.new_array(gateway.jvm.java.lang.String, 1)
    masters[0] = f"spark://127.0.0.1:{started._1().address().port()}"
    for host in ("127.0.0.1", "127.0.0.2"):
        work = str(folder / host)
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            host, 0, 0, 8, 8192, masters, work, none, conf, none
        )
    return str(masters[0])


def until(condition: Callable[[], Any], what: str) -> None:
    """Look until it is so."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {PATIENCE:.0f} s"
        time.sleep(0.02)


def command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
