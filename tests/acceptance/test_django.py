"""A project of Django, made by `startproject`, with the application of rowlease.

Django 6 may need another interpreter: ROWLEASE_TEST_DJANGO6_PYTHON names one that has Django 6 and
rowlease installed. `make test` installs one into .venv/django6.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa

from tests.conftest import in_database, scratch_database

#: Settings like those of `startproject`, whose database is SQLite.
FOR_SQLITE = "from site_of_test.settings import *\n"
Sql = Callable[..., list[tuple[Any, ...]]]

DATABASES = """
    url = urlsplit({dsn!r})
    DATABASES = {{"default": {{
        "ENGINE": "django.db.backends.postgresql", "NAME": url.path[1:], "HOST": url.hostname,
        "PORT": url.port, "USER": unquote(url.username), "PASSWORD": unquote(url.password or ""),
        "OPTIONS": {{"sslmode": "prefer", "application_name": "django", "prepare_threshold": 5}},
    }}}}
"""


class Project(NamedTuple):
    """A project of Django.

    Attributes:
        package: the package of Django's tasks.
    """

    folder: Path
    python: str
    package: str

    def write(self, file: str, text: str) -> None:
        """Write a module for this version of Django."""
        (self.folder / file).write_text(dedent(text).replace("django.tasks", self.package))

    def manage(self, *arguments: str, code: int = 0, **environment: str) -> str:
        """Run manage.py; what it prints on stdout, or else on stderr."""
        ran = subprocess.run(
            [self.python, "manage.py", *arguments],
            cwd=self.folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert ran.returncode == code, ran.stdout + ran.stderr
        return ran.stderr if code else ran.stdout + ran.stderr


@pytest.fixture(params=["5.2", "6"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    """A new project with an application `shop`."""
    if request.param == "5.2":
        pytest.importorskip("django_tasks")
        made = Project(tmp_path, sys.executable, "django_tasks")
    else:
        installed = Path(sys.prefix) / "django6" / "bin" / "python"
        python = os.environ.get("ROWLEASE_TEST_DJANGO6_PYTHON") or str(installed)
        if not Path(python).exists():
            pytest.skip("ROWLEASE_TEST_DJANGO6_PYTHON names no Python with Django 6")
        made = Project(tmp_path, python, "django.tasks")
    create = [made.python, "-m", "django", "startproject", "site_of_test", "."]
    subprocess.run(create, cwd=tmp_path, check=True, timeout=300)
    (tmp_path / "shop").mkdir()
    made.write("shop/__init__.py", "")
    return made


def configure(project: Project, dsn: str, page: str) -> None:
    """Add the settings of the page, with this database."""
    file = project.folder / "site_of_test" / "settings.py"
    file.write_text(
        file.read_text()
        + "\nfrom urllib.parse import unquote, urlsplit\n"
        + dedent(DATABASES).format(dsn=dsn)
        + "\nINSTALLED_APPS += ['shop']\n"
        + page
    )


@pytest.fixture
def page(repository: Path) -> list[str]:
    """The settings, the tasks, the database for development and the tests of the page."""
    section = (repository / "docs" / "integrations.md").read_text().partition("\n## Django\n")[2]
    return re.findall(r"^```python\n(.*?)^```", section.partition("\n## ")[0], re.M | re.S)


@pytest.fixture
def empty_dsn(server_dsn: str) -> Iterator[str]:
    with scratch_database(server_dsn) as name:
        yield in_database(server_dsn, name)


ADMIN = """
    from datetime import timedelta

    from django.contrib.auth.models import User
    from django.test import TestCase, TransactionTestCase
    from django.utils import timezone

    from rowlease.errors import InvalidRequest
    from rowlease.integrations.django.models import FinishedRequest, QueuedRequest
    from rowlease.integrations.django.testing import run_tasks
    from shop.tasks import send


    class Admin(TestCase):
        def pages(self):
            self.client.force_login(User.objects.create_superuser("ann"))
            for model in ("queuedrequest", "finishedrequest"):
                yield self.client.get(f"/admin/rowlease/{model}/").content.decode()

        def test_it_shows_what_waits_and_links_to_the_dashboard(self):
            key = send.enqueue("<ann@example.com>").id
            waiting, finished = self.pages()
            self.assertIn(f"/rowlease/queuedrequest/{key}/change/", waiting)
            self.assertIn(f"https://jobs.example/requests/{key}", waiting)
            self.assertIn("0 finished requests", finished)
            one = self.client.get(f"/admin/rowlease/queuedrequest/{key}/change/").content.decode()
            self.assertIn("&lt;ann@example.com&gt;", one)
            self.assertNotIn('type="submit"', one.partition("queuedrequest_form")[2])
            for action in ("change", "delete"):
                path = f"/admin/rowlease/queuedrequest/{key}/{action}/"
                sent = self.client.post(path, {"post": "yes"})
                self.assertEqual(sent.status_code, 403)
            self.assertEqual(self.client.get("/admin/rowlease/queuedrequest/add/").status_code, 403)


    class Open(TestCase):
        def test_what_a_transaction_has_not_committed_is_not_run(self):
            send.enqueue("ann@example.com")
            with self.assertRaisesRegex(InvalidRequest, "TransactionTestCase"):
                run_tasks()


    class Failing(TransactionTestCase):
        def test_1_an_exception_is_that_of_the_task(self):
            send.enqueue("ann@example.com")
            run_tasks()
            send.using(run_after=timezone.now() + timedelta(days=1)).enqueue("later")
            send.enqueue("nobody")
            with self.assertRaisesRegex(ValueError, "no address"):
                run_tasks()
            self.assertEqual(QueuedRequest.objects.count(), 2)
            self.assertEqual(FinishedRequest.objects.count(), 1)

        def test_2_the_requests_of_another_test_are_gone(self):
            self.assertEqual(QueuedRequest.objects.count(), 0)
            self.assertEqual(FinishedRequest.objects.count(), 0)
"""


def test_the_project_of_the_page_migrates_tests_and_works(
    project: Project, page: list[str], empty_dsn: str
) -> None:
    settings, tasks, _, tests = page
    option = '"OPTIONS": {"dashboard_url": "https://jobs.example/"}, "QUEUES"'
    configure(project, empty_dsn, settings.replace('"QUEUES"', option))
    sends = '    if "@" not in to:\n        raise ValueError("no address")\n    return'
    project.write("shop/tasks.py", tasks.replace("    return", sends))
    project.write("shop/tests.py", tests)
    project.write("shop/tests_of_admin.py", ADMIN)
    assert "rowlease: created schema 00" in project.manage("migrate")
    assert "rowlease: " not in project.manage("migrate")
    assert "Ran 6 tests" in project.manage("test", "--pattern", "tests*.py")
    engine = sa.create_engine(empty_dsn.replace("://", "+psycopg://", 1))
    with engine.begin() as connection:
        assert connection.scalars(
            sa.text("select queue_name::text from rowlease.queue_settings order by 1")
        ).all() == ["default", "mail"]
    enqueue = "from shop.tasks import send; send.enqueue('ann@example.com')"
    project.manage("shell", "-c", enqueue)
    worker = ("rowlease_worker", "--settings", "site_of_test.settings", "--processes", "2")
    # Whatever the environment says, the worker has the database of the settings.
    ended = project.manage(*worker, "--burst", ROWLEASE_DSN="postgresql://nowhere.invalid/no")
    assert "1 finished" in ended
    (ran,) = (line for line in ended.splitlines() if "state=SUCCESSFUL" in line)
    assert " INFO Task id=" in ran
    project.manage("migrate")  # deletes nothing
    with engine.begin() as connection:
        assert connection.execute(
            sa.text("select kind, result::text, max_attempts from rowlease.queue_history")
        ).all() == [("shop.tasks.send", '"sent to ann@example.com"', 3)]
    engine.dispose()


def test_what_is_wrong_is_said_in_one_sentence(
    project: Project, page: list[str], empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, tasks, database, _ = page
    monkeypatch.setenv("ROWLEASE_DSN", empty_dsn)
    if project.package == "django_tasks":
        settings = "INSTALLED_APPS += ['django_tasks']\n" + settings
    assert "Unknown command: 'rowlease_worker'" in project.manage("rowlease_worker", code=1)
    project.write("site_of_test/lite.py", FOR_SQLITE + settings)
    lite = {"DJANGO_SETTINGS_MODULE": "site_of_test.lite"}
    needs = "needs PostgreSQL, but the database 'default' is sqlite"
    assert needs in project.manage("check", code=1, **lite)
    for command in ("migrate", "rowlease_worker"):
        (line,) = project.manage(command, "--skip-checks", code=1, **lite).splitlines()
        assert needs in line
    configure(project, "postgresql://no@nowhere/no", settings + database)
    (line,) = project.manage("rowlease_worker", "--burst", code=2).splitlines()
    assert "no application has a task" in line
    project.write("shop/tasks.py", tasks)
    (line,) = project.manage("rowlease_worker", "--burst", code=3).splitlines()
    assert "has no rowlease schema" in line
    project.write("shop/tasks.py", tasks.replace("max_attempts", "max_atempts"))
    (line,) = project.manage("rowlease_worker", "--burst", code=2).splitlines()
    assert "the task shop.tasks.send: there is no option 'max_atempts'" in line
    module = "rowlease.integrations.django.worker_tasks"
    ran = subprocess.run(
        [project.python, "-m", "rowlease", "worker", module, "--dsn", empty_dsn],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert (ran.returncode, "manage.py rowlease_worker" in ran.stderr) == (2, True)


TASKS = """
    from django.tasks import task


    @task
    def add(a, b=1):
        return {"sum": a + b}


    @task(priority=100, queue_name="mail")
    async def send(to):
        return f"sent to {to}"


    @task(takes_context=True, rowlease={"max_attempts": 1})
    def fail(context, why):
        if context.attempt >= 1:
            raise ValueError(why)
"""
PROGRAM = """
    import json, sys
    from datetime import timedelta
    from django.db import connection, transaction
    from django.utils import timezone
    from shop.tasks import add, fail, send

    def enqueue():
        results = [add.enqueue(2, b=3), send.enqueue("a@b.c"), fail.enqueue("no luck")]
        later = add.using(run_after=timezone.now() + timedelta(days=1)).enqueue(1)
        for wrong, arguments in ((add, ()), (add, (1, 2, 3)), (send, ()), (fail, ("a", "b"))):
            try:
                wrong.enqueue(*arguments)
            except TypeError as error:
                print("refused", error)
            else:
                raise AssertionError(wrong)
        with transaction.atomic():
            dropped = add.enqueue(4)
            assert add.get_result(dropped.id).args == [4]
            transaction.set_rollback(True)
        with transaction.atomic():
            results.append(add.enqueue(5))
        results.append(later)
        assert [str(each.status) for each in results] == ["READY"] * 5
        print("ids", json.dumps([each.id for each in results]))

    def read(*ids):
        tasks = [add, send, fail, add, add]
        found = [one.get_result(id) for one, id in zip(tasks, ids)]
        print("found", json.dumps([{
            "status": str(each.status), "attempts": each.attempts,
            "value": each.return_value if each.status == "SUCCESSFUL" else None,
            "errors": [error.exception_class.__name__ for error in each.errors],
            "finished": each.finished_at is not None, "args": each.args, "kwargs": each.kwargs,
        } for each in found]))
        with connection.cursor() as cursor:  # results are read on this connection
            cursor.execute("select count(*) from pg_stat_activity"
                           " where datname = current_database() and application_name = 'django'")
            assert cursor.fetchone() == (1,)
        for wrong in ("999999", "no number", "\u00b2", "9" * 30):
            try:
                add.get_result(wrong)
            except Exception as error:
                assert type(error).__name__ == "TaskResultDoesNotExist", error
            else:
                raise AssertionError(wrong)
"""


def test_djangos_tasks_are_requests(project: Project, page: list[str], dsn: str, sql: Sql) -> None:
    configure(project, dsn, page[0])
    project.write("shop/tasks.py", TASKS)
    project.write("program.py", PROGRAM)
    project.manage("migrate", "auth")  # also only makes the queue mail
    printed = project.manage("shell", "-c", "import program; program.enqueue()")
    assert "refused shop.tasks.add(a, b=1): missing a required argument: 'a'" in printed
    ids = json.loads(printed.partition("ids ")[2])
    assert sql("select kind, priority, queue_name from rowlease.queue order by 1, 2") == [
        ("shop.tasks.add", 4, "default"),
        ("shop.tasks.add", 4, "default"),
        ("shop.tasks.add", 4, "default"),
        ("shop.tasks.fail", 4, "default"),
        ("shop.tasks.send", 9, "mail"),
    ]
    project.manage("rowlease_worker", "--burst")
    read = f"import program; program.read(*{ids})"
    printed = project.manage("shell", "-c", read)
    added, sent, failed, again, later = json.loads(printed.partition("found ")[2])
    assert (added["status"], added["value"], added["args"], added["kwargs"]) == (
        "SUCCESSFUL",
        {"sum": 5},
        [2],
        {"b": 3},
    )
    assert (sent["status"], sent["value"]) == ("SUCCESSFUL", "sent to a@b.c")
    assert (failed["status"], failed["errors"], failed["attempts"]) == ("FAILED", ["ValueError"], 1)
    assert (again["value"], later["status"]) == ({"sum": 6}, "READY")
    assert [each["finished"] for each in (added, failed, later)] == [True, True, False]
