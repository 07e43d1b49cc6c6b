"""What the server does to sessions in a drill: ends one or its statement, refuses a transaction."""

from __future__ import annotations

import re

#: Ends a session, or its statement, as soon as one executes a statement.
HIT = """
create function witness.hit(how text) returns boolean language plpgsql as $$
declare v_pid integer;
begin
  for turn in 1 .. 1000 loop
    perform pg_stat_clear_snapshot();
    v_pid := (select pid from pg_stat_activity
               where state = 'active' and application_name like 'rowlease%'
               order by random() limit 1);
    if v_pid is not null then
      return case how when 'cancel' then pg_cancel_backend(v_pid)
                      else pg_terminate_backend(v_pid) end;
    end if;
    perform pg_sleep(0.0005);
  end loop;
  return false;
end $$"""
#: Refuses a transaction that changes requests, when it is asked to. Sequences tell how often it was
#: asked and has refused, because a transaction that is refused leaves nothing else behind.
REFUSE = """
create sequence witness.asked_at_statement; create sequence witness.refused_at_statement;
create sequence witness.asked_at_commit; create sequence witness.refused_at_commit;
create function witness.refuse() returns trigger language plpgsql security definer as $$
declare
  v_asked   regclass := 'witness.asked_at_' || tg_argv[0];
  v_refused regclass := 'witness.refused_at_' || tg_argv[0];
begin
  if pg_sequence_last_value(v_refused) < pg_sequence_last_value(v_asked)
     and pg_try_advisory_xact_lock(v_asked::oid::bigint)
     and pg_sequence_last_value(v_refused) < pg_sequence_last_value(v_asked) then
    perform nextval(v_refused);
    raise exception using errcode = '40001', message = 'could not serialize access: a drill';
  end if;
  return null;
end $$;
create trigger refuse_statement after insert or update or delete on rowlease.queue
  for each statement execute function witness.refuse('statement');
create constraint trigger refuse_commit after insert or update or delete on rowlease.queue
  deferrable initially deferred for each row execute function witness.refuse('commit');
"""
ASK_TO_REFUSE = """select setval('witness.asked_at_{0}', setval('witness.refused_at_{0}',
  coalesce(pg_sequence_last_value('witness.refused_at_{0}'), 1)) + 1)"""
REFUSED = """select pg_sequence_last_value('witness.refused_at_{0}')
  >= pg_sequence_last_value('witness.asked_at_{0}')"""
#: What the server logs about a statement that was ended, and did not end before.
ENDED = {
    "cancel": re.compile(rb"ERROR: +canceling statement due to user request"),
    "terminate": re.compile(
        rb"FATAL: +terminating connection due to administrator command\n.*STATEMENT:"
    ),
}
