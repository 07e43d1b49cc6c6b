"""Stops between the statements of routines: a session stops at its n-th, until a gate is opened.

`put_stops` writes an assertion after each statement, and at the beginning of each branch and loop,
into the routines of a test database. An assertion changes no variable that a routine sees, as
`found` is. Only the session that has called `stop_at` stops, and only once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

from tests.contract.sessions import Session

#: Who holds this lock has shut the gate.
GATE = 1919907400
STOPS = f"""
do $do$ begin
create schema stops;
create sequence stops.passed;
create function stops.pass() returns boolean language plpgsql set lock_timeout = 0 as $$
declare
  v_place  bigint := nextval('stops.passed');
  v_places text;
  v_done   text;
begin
  if v_place = current_setting('stops.at')::bigint then
    perform pg_advisory_lock_shared({GATE}), pg_advisory_unlock_shared({GATE});
  elsif current_setting('stops.at') = '0' then
    select sum(pg_stat_get_xact_numscans(c.oid) + pg_stat_get_xact_tuples_inserted(c.oid)
               + pg_stat_get_xact_tuples_updated(c.oid) + pg_stat_get_xact_tuples_deleted(c.oid))
           || ' ' || (select count(*) from pg_locks l where l.pid = pg_backend_pid())
      into v_done from pg_class c where c.relnamespace = 'rowlease'::regnamespace;
    if v_done is distinct from current_setting('stops.done', true) then
      v_places := concat_ws(',', current_setting('stops.places'), v_place);
      perform set_config('stops.done', v_done, false), set_config('stops.places', v_places, false);
    end if;
  end if;
  return true;
end $$;
grant usage on schema stops to public;
grant usage on sequence stops.passed to public;
end $do$
"""
STOP = " assert coalesce(current_setting('stops.at', true), '') = '' or stops.pass();"
#: Routines that change something or may see a change; the others have one snapshot.
VOLATILE = """
select p.prosrc, pg_get_functiondef(p.oid) from pg_proc p join pg_language l on l.oid = p.prolang
 where p.pronamespace in ('rowlease'::regnamespace, 'rowlease_internal'::regnamespace)
   and p.provolatile = 'v' and l.lanname = 'plpgsql'
"""
TOKEN = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\$\w*\$.*?\$\w*\$|#\w+ \w+|\w+|\S", re.DOTALL
)


def put_stops(store: Session) -> int:
    """Put stops into all routines of a database; how many there are."""
    store.execute(STOPS)
    routines = store.execute(VOLATILE)
    for source, definition in routines:
        store.execute(definition.replace(source, with_stops(source)).replace("%", "%%"), ())
    return sum(with_stops(source).count(STOP) for source, _ in routines)


def with_stops(source: str) -> str:
    """The text of a routine in PL/pgSQL with its stops."""
    places = [0, *places_of_stops(source), len(source)]
    return STOP.join(source[begin:end] for begin, end in pairwise(places))


def places_of_stops(source: str) -> Iterator[int]:
    """After each statement, and after THEN, ELSE and LOOP."""
    parentheses = cases = 0
    declares = True
    blocks = 0
    last, begins = "", True
    for token in TOKEN.finditer(source):
        word = token[0].lower()
        if word[:2] in ("--", "/*"):
            continue
        parentheses += (word == "(") - (word == ")")
        if word == "declare":
            declares = True
        elif word == "begin":
            declares, blocks = False, blocks + 1
        elif word == "case" and last != "end" and not begins:
            cases += 1  # an expression
        elif word == "end" and cases:
            cases -= 1
        elif word == "end" or declares or parentheses or cases or (last, word) == ("end", "loop"):
            pass
        elif word == ";" and last == "end":
            blocks -= 1
            if blocks:
                yield token.end()
        elif word in (";", "then", "else", "loop"):
            yield token.end()
        begins = word in (";", "then", "else", "loop", "begin") and not (cases or parentheses)
        last = word


def stop_at(store: Session, place: int) -> None:
    """Have a session stop at its n-th stop from now on; 0 only notes the stops."""
    store.execute(
        "select setval('stops.passed', 1, false), set_config('stops.at', %s, false),"
        " set_config('stops.places', '', false), set_config('stops.done', '', false)",
        (str(place),),
    )


def goes_on(store: Session) -> list[int]:
    """Have it stop no more; at which places it had done something since the place before."""
    ((places, _),) = store.execute(
        "select current_setting('stops.places'), set_config('stops.at', '', false)"
    )
    return [int(place) for place in places.split(",") if place]


@contextmanager
def shut(gate: Session) -> Iterator[None]:
    """The gate is shut meanwhile."""
    gate.execute("select pg_advisory_lock(%s)", (GATE,))
    try:
        yield
    finally:
        gate.execute("select pg_advisory_unlock(%s)", (GATE,))
