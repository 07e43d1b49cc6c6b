"""Who gets in, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from time import monotonic
from typing import Any

import pytest
from starlette.requests import HTTPConnection

from rowlease.dashboard import Dashboard, guard
from rowlease.dashboard.actions import ACTIONS
from rowlease.errors import ConfigError
from rowlease.store import Store, open_store
from tests.conftest import in_database, scratch_database
from tests.dashboard.conftest import LOCAL, OPERATOR, READER, Browser, Visit

FORMS = [f"/actions/{verb}" for verb in ACTIONS]
TOKENS = {"reader_token": READER, "operator_token": OPERATOR}
PAUSED: dict[str, str] = {"queue": "default", "confirmed": "yes", "back": "/"}


@pytest.fixture(scope="module")
def dsn(server_dsn: str, template: str) -> Iterator[str]:
    """One database for all tests of this file, because nearly all of them change nothing."""
    with scratch_database(server_dsn, template) as name:
        yield in_database(server_dsn, name)


@pytest.fixture(scope="module")
def shared(dsn: str) -> Iterator[Store]:
    with closing(open_store(dsn)) as opened:
        yield opened


@pytest.fixture
def store(shared: Store) -> Iterator[Store]:
    yield shared
    shared.resume("default")


def is_paused(store: Store) -> bool:
    return store.list_queues()[0].paused


# -- without tokens: this machine only ---------------------------------------------------------


def test_this_machine_is_let_in_to_look(visit: Visit) -> None:
    for site in (LOCAL, "http://127.0.0.1:8642", "http://[::1]:8642"):
        assert visit(site=site).get("/").status_code == 200
    assert visit(address="::1").get("/").status_code == 200


def test_another_machine_is_refused(visit: Visit) -> None:
    for address in ("10.0.0.7", "testclient", "", "::ffff:10.0.0.7"):
        browser = visit(address=address)
        assert browser.get("/").status_code == 403
        assert browser.get("/static/dashboard.css").status_code == 403


def test_another_name_of_this_machine_is_refused(visit: Visit) -> None:
    """A site of an attacker may have the address 127.0.0.1."""
    browser = visit()
    for host in ("evil.example", "localhost.evil.example", "[", "", "a@b:c"):
        assert browser.get("/", headers={"host": host}).status_code == 403


def test_a_reader_changes_nothing(visit: Visit, store: Store) -> None:
    browser = visit(local_role="reader")
    browser.get("/")
    for path in FORMS:
        assert browser.post(path, PAUSED).status_code == 403
    assert not is_paused(store)


# -- forms --------------------------------------------------------------------------------------


def pause(browser: Browser, **headers: str) -> int:
    fields = browser.form("/queue?name=default", "/actions/pause").fields
    return browser.post("/actions/pause", {**fields, **PAUSED}, **headers).status_code


def test_an_operators_form_is_accepted(browser: Browser, store: Store) -> None:
    assert pause(browser) == 200
    assert is_paused(store)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "", "https://localhost:8642", "http://localhost"]
)
def test_a_form_of_another_origin_is_refused(origin: str, browser: Browser, store: Store) -> None:
    assert pause(browser, origin=origin) == 403
    assert not is_paused(store)


def test_a_form_without_an_origin_is_refused(browser: Browser, store: Store) -> None:
    fields = browser.form("/queue?name=default", "/actions/pause").fields
    sent = browser.send("POST", "/actions/pause", data={**fields, **PAUSED})
    assert sent.status_code == 403
    assert not is_paused(store)


@pytest.mark.parametrize("token", [None, "", "x" * 64, b"\xff\xc3\xa9"])
def test_a_form_without_the_visitors_token_is_refused(
    token: str | bytes | None, browser: Browser, store: Store
) -> None:
    browser.get("/")
    for path in FORMS:
        fields = PAUSED if token is None else {**PAUSED, "csrf": token}
        assert browser.post(path, fields).status_code == 403
    assert not is_paused(store)


def test_a_token_of_another_visitor_is_refused(browser: Browser, portal: Any, store: Store) -> None:
    fields = browser.form("/queue?name=default", "/actions/pause").fields
    other = Browser(portal, browser.dashboard)
    other.get("/")
    assert other.post("/actions/pause", {**fields, **PAUSED}).status_code == 403
    assert not is_paused(store)


def test_a_form_is_bounded(browser: Browser) -> None:
    assert browser.post("/actions/pause", {"x": "y" * 70_000}).status_code == 413
    json = {"content-type": "application/json"}
    assert browser.post("/actions/pause", None, **json).status_code == 415


def test_other_methods_are_refused(browser: Browser) -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert browser.send(method, "/").status_code == 405


def test_a_link_performs_no_action(browser: Browser, store: Store) -> None:
    for path in FORMS:
        assert browser.get(f"{path}?queue=default&confirmed=yes").status_code == 405
    assert not is_paused(store)


@pytest.mark.usefixtures("store")
def test_an_answer_leads_to_no_other_site(browser: Browser) -> None:
    fields = browser.form("/queue?name=default", "/actions/pause").fields
    for back in ("//evil.example", "https://evil.example", "/\\evil.example", "javascript:x"):
        page = browser.post("/actions/pause", {**fields, **PAUSED, "back": back})
        assert re.findall(r'<a href="([^"]*)">Back', page.text) == ["/"]


# -- logins -------------------------------------------------------------------------------------


def test_every_page_leads_to_the_login(visit: Visit) -> None:
    browser = visit(**TOKENS)
    for path in ("/", "/requests?filter=status%3Afailed", "/requests/1/payload", "/nothing"):
        page = browser.get(path)
        assert page.status_code == 303
        assert page.headers["location"].startswith("/login?next=%2F")
    assert browser.get("/static/dashboard.css").status_code == 200


def test_without_a_login_nothing_is_changed(visit: Visit, store: Store) -> None:
    browser = visit(**TOKENS)
    for path in FORMS:
        assert browser.post(path, PAUSED).status_code == 403
    assert not is_paused(store)


@pytest.mark.parametrize(("token", "may_act"), [(READER, False), (OPERATOR, True)])
def test_a_token_gives_its_role(token: str, may_act: bool, visit: Visit) -> None:
    browser = visit(address="10.0.0.7", site="https://queue.example", **TOKENS)
    answer = browser.log_in(token)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert ("/actions/pause" in browser.get("/queue?name=default").text) == may_act


@pytest.mark.parametrize(
    "token",
    ["", "x", READER[:-1], READER + "x", "\u00fcn\u00ef\u2603", b"\xff\xfe", b"\xed\xa0\x80"],
)
def test_a_wrong_token_is_refused(token: str | bytes, visit: Visit) -> None:
    browser = visit(**TOKENS)
    answer = browser.log_in(token)  # type: ignore[arg-type]
    assert answer.status_code == 403
    assert "No role has this token" in answer.text
    assert browser.get("/").status_code == 303


def test_a_token_may_have_any_characters(visit: Visit) -> None:
    token = "pässwörd-☃-with-sixteen"
    browser = visit(reader_token=token)
    assert browser.log_in(token).status_code == 303
    assert browser.get("/").status_code == 200


def test_a_login_gets_a_new_cookie_that_scripts_and_other_sites_do_not_get(visit: Visit) -> None:
    browser = visit(site="https://queue.example", **TOKENS)
    before = browser.get("/login").headers["set-cookie"]
    after = browser.log_in(READER).headers["set-cookie"]
    assert before.split(";")[0] != after.split(";")[0]
    for part in ("HttpOnly", "SameSite=lax", "Secure", "Path=/"):
        assert part in after
    assert "Secure" not in visit(**TOKENS).log_in(READER).headers["set-cookie"]


def test_a_visitor_cannot_choose_the_cookie_of_a_login(visit: Visit) -> None:
    browser = visit(**TOKENS)
    page = browser.get("/", headers={"cookie": f"{guard.COOKIE}=chosen"})
    assert page.status_code == 303
    browser.log_in(READER)
    assert browser.get("/", headers={"cookie": f"{guard.COOKIE}=chosen"}).status_code == 303


def test_a_logout_ends_the_login_for_every_copy_of_the_cookie(visit: Visit) -> None:
    browser = visit(**TOKENS)
    copied = browser.log_in(READER).headers["set-cookie"].split(";")[0]
    assert browser.submit("/", "/logout").status_code == 303
    assert browser.get("/", headers={"cookie": copied}).status_code == 303


def test_a_login_from_another_site_is_refused(visit: Visit) -> None:
    browser = visit(**TOKENS)
    form = browser.form("/login", "/login?next=%2F")
    fields = {**form.fields, "token": READER}
    assert browser.post(form.action, fields, origin="http://evil.example").status_code == 403
    assert browser.post(form.action, {"token": READER}).status_code == 403
    assert browser.get("/").status_code == 303


def test_a_login_ends_after_its_time(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = visit(**TOKENS)
    browser.log_in(READER)
    assert browser.get("/").status_code == 200
    late = monotonic() + guard.LOGIN_SECONDS + 1
    monkeypatch.setattr(guard, "monotonic", lambda: late)
    assert browser.get("/").status_code == 303


def test_failed_logins_of_an_address_are_bounded(
    visit: Visit, portal: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = visit(**TOKENS)
    now = monotonic()
    monkeypatch.setattr(guard, "monotonic", lambda: now)
    codes = [browser.log_in("wrong").status_code for _ in range(guard.MAX_LOGIN_FAILURES + 1)]
    assert codes == [403] * guard.MAX_LOGIN_FAILURES + [429]
    assert browser.log_in(READER).status_code == 429
    other = Browser(portal, browser.dashboard, address="127.0.0.2")
    assert other.log_in(READER).status_code == 303
    monkeypatch.setattr(guard, "monotonic", lambda: now + 61)
    assert browser.log_in(READER).status_code == 303


@pytest.mark.parametrize("network", ["2001:db8:0:7:{:x}::1", "::ffff:1.2.3.4{}"])
def test_failed_logins_of_a_visitor_with_many_addresses_are_bounded(network: str) -> None:
    made = guard.Guard({"reader": READER})
    for n in range(guard.MAX_LOGIN_FAILURES):
        made.log_in(network.format(n if "db8" in network else ""), "wrong")
    with pytest.raises(guard.Refused, match=r"too many failed logins from (2001:db8|1\.2\.3\.4)"):
        made.log_in("2001:db8:0:7:ffff::" if "db8" in network else "1.2.3.4", READER)
    assert made.log_in("2001:db8:0:8::1", READER)


def test_logins_and_failures_take_a_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MAX_LOGINS", 3)
    made = guard.Guard({"reader": READER})
    cookies = [made.log_in("a", READER) for _ in range(5)]
    for n in range(5):
        made.log_in(str(n), "wrong")
    assert list(made._logins) == cookies[2:]
    assert list(made._failures) == ["2", "3", "4"]


def test_a_login_leads_to_no_other_site(visit: Visit) -> None:
    browser = visit(**TOKENS)
    form = browser.form("/login?next=//evil.example", "/login?next=%2F")
    answer = browser.post("/login?next=//evil.example", {**form.fields, "token": READER})
    assert answer.headers["location"] == "/"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reader_token": "short"}, "has 5 characters"),
        ({"operator_token": ""}, "has 0 characters"),
        ({"reader_token": READER, "operator_token": READER}, "the same token"),
    ],
)
def test_a_token_that_is_no_secret_is_refused(
    options: dict[str, str], message: str, made: Callable[..., Dashboard]
) -> None:
    with pytest.raises(ConfigError, match=message):
        made(**options)


# -- in another program -------------------------------------------------------------------------


def test_the_program_around_it_decides_about_roles(visit: Visit, store: Store) -> None:
    def role(request: HTTPConnection) -> guard.Role | None:
        return {"a": "reader", "b": "operator"}.get(request.headers.get("user", ""))  # type: ignore[return-value]

    browser = visit(site="https://x.example", address="10.0.0.7", authorize=role)
    assert browser.get("/").status_code == 403
    assert browser.get("/", headers={"user": "a"}).status_code == 200
    page = browser.get("/queue?name=default", headers={"user": "b"})
    token = re.search(r'name="csrf" value="(\w+)"', page.text)
    assert token
    fields = {**PAUSED, "csrf": token[1]}
    assert browser.post("/actions/pause", fields, user="a").status_code == 403
    assert browser.post("/actions/pause", fields, user="b").status_code == 200
    assert is_paused(store)


# -- every answer -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/", "/nothing", "/static/dashboard.js", "/requests/1/payload", "/login", "/actions/x"]
)
def test_every_answer_has_the_security_headers(path: str, visit: Visit) -> None:
    for browser in (visit(), visit(**TOKENS), visit(address="10.0.0.7")):
        headers = browser.get(path).headers
        for name, value in guard.HEADERS.items():
            assert headers[name] == value
        assert "strict-transport-security" not in headers
    secure = visit(site="https://queue.example", **TOKENS).get(path)
    assert secure.headers["strict-transport-security"] == guard.STRICT_TRANSPORT


def test_the_policy_allows_nothing_but_the_dashboards_own_files() -> None:
    policy = dict(part.strip().split(" ", 1) for part in guard.CONTENT_POLICY.split(";"))
    assert policy.pop("default-src") == "'none'"
    assert set(policy.values()) == {"'self'", "'none'"}
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"


def test_pages_are_not_kept_by_caches(browser: Browser) -> None:
    assert browser.get("/").headers["cache-control"] == "no-store"
