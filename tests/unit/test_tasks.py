from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, fields
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from rowlease.errors import ConfigError, InvalidRequest, UnknownTask, WrongArguments
from rowlease.model import MAX_PAYLOAD_BYTES
from rowlease.tasks.cron import Cron, takes_time
from rowlease.tasks.loading import load_tasks
from rowlease.tasks.settings import TaskKeywords, TaskSettings
from rowlease.tasks.task import Registry, Task, task


@task
def echo(*args: Any, **kwargs: Any) -> list[Any]:
    """Say it again."""
    return [list(args), kwargs]


def test_a_task_is_still_the_function() -> None:
    assert echo(1, x=2) == [[1], {"x": 2}]
    assert (echo.name, echo.__doc__) == ("echo", "Say it again.")
    assert repr(echo) == "<task echo>"


def test_a_task_has_what_its_decorator_says() -> None:
    @task("flights.delay", queue="air", priority=3, max_attempts=2, time_limit=timedelta(seconds=9))
    def delay(minutes: int) -> int:
        return minutes + 1

    assert delay(minutes=1) == 2
    assert (delay.name, delay.queue, delay.priority) == ("flights.delay", "air", 3)
    assert (delay.max_attempts, delay.time_limit) == (2, timedelta(seconds=9))


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ('{"a": 1, "b": null}', '[[],{"a":1,"b":null}]'),
        ("{}", "[[],{}]"),
        (' {"a": "größer 😀"}', '[[],{"a":"größer 😀"}]'),
    ],
)
def test_a_payload_becomes_arguments_and_the_result_compact_json(
    payload: str, expected: str
) -> None:
    assert echo.run(payload) == expected


def test_a_result_of_none_is_no_result() -> None:
    assert Task(print, "nothing").run("{}") is None


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (float("nan"), "not JSON: Out of range float"),
        (float("inf"), "not JSON: Out of range float"),
        (object(), "not JSON: object cannot be written as JSON; register the type with rowlease."),
        ("\ud800", "not JSON: .* surrogates not allowed"),
        ("x" * MAX_PAYLOAD_BYTES, f"is {MAX_PAYLOAD_BYTES + 2} bytes of JSON"),
        ("ä" * (MAX_PAYLOAD_BYTES // 2), f"is {MAX_PAYLOAD_BYTES + 2} bytes of JSON"),
    ],
    ids=["nan", "inf", "object", "surrogate", "large", "large in bytes"],
)
def test_a_result_that_cannot_be_kept_is_refused(result: Any, message: str) -> None:
    def give() -> Any:
        return result

    with pytest.raises(ValueError, match=message):
        Task(give).run("{}")


def test_the_largest_result_is_kept() -> None:
    def give() -> str:
        return "x" * (MAX_PAYLOAD_BYTES - 2)

    assert len(Task(give).run("{}") or "") == MAX_PAYLOAD_BYTES


def test_a_result_that_refers_to_itself_is_refused() -> None:
    def give() -> list[Any]:
        endless: list[Any] = []
        endless.append(endless)
        return endless

    with pytest.raises(ValueError, match=r"not JSON: .*(recursion depth|Stack overflow)"):
        Task(give).run("{}")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": ""}, "must have 1 to 200 characters"),
        ({"name": "x" * 201}, "must have 1 to 200 characters"),
        ({"priority": -1}, "priority is -1"),
        ({"max_attempts": 0}, "max_attempts is 0"),
        ({"time_limit": timedelta(0)}, "time_limit is 0:00:00"),
        ({"name": 3}, "name is 3; it must be a string"),
        (
            {"executor": "gevent"},
            "task one: executor is 'gevent'; it must be one of process, thread",
        ),
        ({"queue": 3}, "task one: queue is 3; it must be a string"),
        (
            {"retry_pause": timedelta(seconds=1), "retry_base": timedelta(seconds=1)},
            "retry_pause is 0:00:01; it cannot be combined with retry_base",
        ),
        ({"priority": "high"}, "priority is 'high'; it must be an integer of 0 or more"),
        ({"max_attempts": "3"}, "max_attempts is '3'; it must be an integer of 1 or more"),
        ({"time_limit": 60}, r"time_limit is 60; it must be a timedelta, for example timedelta\("),
        ({"catch_up": True}, "catch_up is True; it must be an integer of 1 or more"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Task(print, **{"name": "one", **settings})


def test_an_unknown_setting_gets_the_known_ones_as_answer() -> None:
    with pytest.raises(
        TypeError, match=r"there is no option 'retries'; the options are: .*attempts"
    ):
        Task(print, **{"retries": 3})  # type: ignore[arg-type]


def test_who_enqueues_as_in_another_library_is_told_how() -> None:
    with pytest.raises(AttributeError, match=r"a task has no 'delay'; use client.enqueue\(task"):
        echo.delay  # type: ignore[attr-defined]  # noqa: B018


def test_the_keywords_of_a_task_are_its_settings() -> None:
    names = {"Task": Task}
    settings = get_type_hints(TaskSettings, localns=names)
    assert {"name": str, **get_type_hints(TaskKeywords, localns=names)} == settings


def test_the_settings_of_a_task_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        echo.priority = 3  # type: ignore[misc]


@pytest.mark.parametrize("what", [3, echo])
def test_only_functions_can_be_tasks(what: Any) -> None:
    with pytest.raises(ConfigError, match="must be a function"):
        Task(what)


def numbers() -> Iterator[int]:
    yield 1


class Mailer:
    def send(self) -> None: ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (numbers, "numbers is a generator, of which a worker would run nothing"),
        (Mailer.send, "Mailer.send is a method, for which a worker has no object"),
        (lambda: None, r'a lambda has no name .* use def, or @task\("name"\)'),
    ],
)
def test_a_function_that_no_worker_could_run_is_refused_where_it_is_written(
    function: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        task(function)


def test_a_static_method_and_a_lambda_with_a_name_are_tasks() -> None:
    class Renderer:
        @task
        @staticmethod
        def render() -> str:
            return "text"

    assert Renderer.render() == "text"
    assert task("zero")(lambda: 0)() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delay": timedelta(1), "due_time": datetime.now(UTC)}, "both delay and due_time"),
        ({"delay": timedelta(seconds=-1)}, "it must not be negative"),
        ({"retry_base": timedelta(seconds=-1)}, "retry_base is .* must not be negative"),
    ],
)
def test_times_that_make_no_sense_are_refused(options: Any, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        echo.with_options(**options).request()


def test_two_tasks_of_one_name_are_refused() -> None:
    other = Task(print, "echo")
    with pytest.raises(ConfigError, match=r"two tasks are named 'echo' .*test_tasks.echo and"):
        Registry([echo, other])
    assert list(Registry([echo, echo])) == ["echo"]


def test_an_unknown_name_gets_the_known_ones_as_answer() -> None:
    registry = Registry([echo, *(Task(print, f"task {n:02}") for n in range(30))])
    with pytest.raises(
        UnknownTask, match=r"no task is named 'nobody'; the known tasks are: echo, task 00, .*"
    ):
        registry["nobody"]
    assert registry.unknown("nobody").endswith(", task 18, ...")
    assert Registry([]).unknown("x") == "no task is named 'x'; the known tasks are: none"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to import from; what was imported is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("app", "other"):  # tests of documentation import programs of these names
        monkeypatch.delitem(sys.modules, name, raising=False)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


APP = """
from rowlease.tasks.task import task
@task
def one(): ...
@task("second")
def two(): ...
both = [one, two]
class Space:
    inner = one
names = {"a": two}
number = 3
"""


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("app", ["one", "second"]),
        ("app:both", ["one", "second"]),
        ("app:two", ["second"]),
        ("app:names", ["second"]),
        ("app:Space.inner", ["one"]),
        ("other:app", ["one", "second"]),
    ],
)
def test_tasks_are_collected_from_a_module(folder: Path, path: str, names: list[str]) -> None:
    (folder / "app.py").write_text(APP)
    (folder / "other.py").write_text("import app")
    assert list(load_tasks(path)) == names


def test_tasks_are_collected_from_several_modules(folder: Path) -> None:
    (folder / "app.py").write_text(APP)
    (folder / "more.py").write_text(
        "from rowlease.tasks.task import task\nfrom app import one\n@task\ndef third(): ..."
    )
    assert list(load_tasks("app", "more")) == ["one", "second", "third"]


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("", ConfigError, "give the module"),
        ("./app.py", ConfigError, "./app.py is a file; give the name of its module: app"),
        ("src/app.py:one", ConfigError, "src/app.py is a file; give the name of its module: app"),
        ("nowhere", ConfigError, "there is no module 'nowhere'; change to its folder"),
        ("nowhere.tasks", ConfigError, "there is no module 'nowhere'"),
        ("app.tasks", ConfigError, "there is no module 'app.tasks'|'app' is not a package"),
        ("./app", ConfigError, "./app is a path; give the name of the module"),
        ("app,other", ConfigError, "'app,other' is not the name of one module; write each"),
        (
            "app.two",
            ConfigError,
            "no module 'app.two'; to run two of the module app, write app:two",
        ),
        ("app:three", ConfigError, "the module app has nothing named 'three'"),
        ("app:number", UnknownTask, "there is no task in app:number"),
        ("empty", UnknownTask, "there is no task in empty; decorate functions with @rowlease.task"),
        ("wrong", ConfigError, r"importing wrong failed: SyntaxError: .* \(wrong.py, line 1\)$"),
        (
            "needy",
            ConfigError,
            r"needy failed: No module named 'not_installed' \(.*needy.py, line 2",
        ),
        ("clumsy", ConfigError, "max_attempts is 0; it must be 1 or more"),
        ("typo", ConfigError, r"TypeError: there is no option 'prio'; .* \(.*typo.py, line 2\)$"),
    ],
)
def test_tasks_that_cannot_be_loaded_are_an_error(
    folder: Path, path: str, error: type[Exception], message: str
) -> None:
    (folder / "app.py").write_text(APP)
    (folder / "empty.py").touch()
    (folder / "wrong.py").write_text("def")
    (folder / "needy.py").write_text("\nimport not_installed")
    (folder / "typo.py").write_text("from rowlease import task\n@task(prio=1)\ndef f(): ...")
    (folder / "clumsy.py").write_text(
        "from rowlease.tasks.task import task\n@task('x', max_attempts=0)\ndef f(): ..."
    )
    with pytest.raises(error, match=message):
        load_tasks(path)


def add(x: int, y: int) -> int:
    return x + y


async def wait_for(x: int) -> int:
    return x


@functools.wraps(add)
def logged(*args: Any, **kwargs: Any) -> int:
    return add(*args, **kwargs)


def claiming(*args: Any, **kwargs: Any) -> int:
    raise TypeError("from the body, so it was called")


claiming.__signature__ = inspect.signature(add)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("function", "payload", "message"),
    [
        (add, '{"x": 1}', r"the task job\(x, y\): missing a required argument: 'y'"),
        (add, '{"x": 1, "y": 2, "z": 3}', "'z'"),
        (add, "[1, 2]", "the payload is no JSON object: Expected `object`, got `array`"),
        (add, "7", "the payload is no JSON object: Expected `object`, got `int`"),
        (wait_for, "{}", "'x'"),
        (add, '{"x": 1, "y": "one"}', "Expected `int`, got `str` - at `y`"),
        (add, '{"x": null, "y": 1}', "Expected `int`, got `null` - at `x`"),
        (claiming, '{"x": 1}', "'y'"),  # it counts what a function claims to take
        (add, "{", "the payload is no JSON object"),
    ],
)
def test_a_payload_that_does_not_fit_the_function_is_an_error(
    function: Any, payload: str, message: str
) -> None:
    with pytest.raises(WrongArguments, match=message):
        Task(function, "job").run(payload)


@pytest.mark.parametrize(
    ("function", "payload"),
    [
        (claiming, '{"x": 1, "y": 1}'),
        (logged, '{"x": 1}'),  # what it wraps may be called otherwise
        (len, '{"obj": 7}'),
    ],
)
def test_a_type_error_in_the_function_is_its_own(function: Any, payload: str) -> None:
    with pytest.raises(TypeError):
        Task(function, "job").run(payload)


# -- cron --------------------------------------------------------------------------------------


def test_a_task_may_say_when_it_is_to_run() -> None:
    @task(cron="0 3 * * *", time_zone="Europe/Berlin", catch_up=4)
    def nightly(force: bool = False) -> bool:
        return force

    assert nightly.timetable == Cron("0 3 * * *", "Europe/Berlin")
    assert (nightly.catch_up, nightly()) == (4, False)
    assert echo.timetable is None


def test_a_task_with_the_parameter_gets_the_time_of_its_firing() -> None:
    def tell(scheduled_time: str) -> None: ...

    def keyword(*, scheduled_time: str) -> None: ...

    assert [takes_time(f) for f in (tell, keyword, echo.function)] == [True, True, False]
    assert Task(keyword, cron="* * * * *").timetable == Cron("* * * * *")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cron_arguments": {"a": 1}}, r"task plain: cron_arguments is {'a': 1}; it needs cron"),
        (
            {"cron": "* * * * *", "cron_arguments": {"a": 1}},
            "called with cron_arguments alone: got an unexpected keyword argument 'a'",
        ),
        ({"cron": "* * * * *", "cron_arguments": [1]}, "it must be a dict of arguments by name"),
        ({"cron": "61 * * * *"}, "task plain: cron is '61 [*] [*] [*] [*]': bad minute"),
        ({"cron": "* * * * *", "time_zone": "Mars"}, "task plain: time_zone is 'Mars', which"),
        ({"catch_up": 0}, "task plain: catch_up is 0; it must be 1 to 1000"),
    ],
)
def test_a_task_whose_times_make_no_sense_is_refused(settings: Any, message: str) -> None:
    def plain() -> None: ...

    with pytest.raises(ConfigError, match=message):
        Task(plain, **settings)


def test_a_firing_has_the_arguments_of_its_task() -> None:
    @task(cron="* * * * *", cron_arguments={"day": "2026-01-02", "width": 5})
    def resize(day: date, width: int, scheduled_time: str, image: str = "a.png") -> None: ...

    payload = resize.parameters.schedule_payload(resize.cron_arguments or {})
    assert payload == '{"scheduled_time":"{scheduled_time}","day":"2026-01-02","width":5}'
    with pytest.raises(WrongArguments, match="Expected `int`, got `str` - at `width`"):
        resize.parameters.schedule_payload({"day": "2026-01-02", "width": "5"})


def test_a_task_with_cron_must_need_no_arguments() -> None:
    def resize(image: str) -> None: ...

    with pytest.raises(ConfigError, match=r"task resize has a cron .* missing a required argument"):
        Task(resize, cron="* * * * *")


def test_the_page_has_all_settings_and_their_defaults(repository: Path) -> None:
    page = (repository / "docs" / "tasks.md").read_text().partition("\n## Settings\n")[2]
    rows = re.findall(r"^\| `(\w+)` \| `(.+?)` \|", page.partition("\n## ")[0], re.M)
    defaults = {each.name: each.default for each in fields(TaskSettings)}
    assert [name for name, _ in rows] == list(TaskKeywords.__annotations__)
    assert {name: eval(text) for name, text in rows} == {name: defaults[name] for name, _ in rows}
