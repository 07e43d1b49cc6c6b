-- describe_session: describe a session, so that a person can find it.
-- params:   p_pid integer (null: no session; the transaction is a prepared one)
-- returns:  text
-- errors:   none
-- locks:    none
-- why:      the time is visible only if rowlease_owner may see it: for sessions of its own
--           members, and with pg_read_all_stats for all sessions.
create or replace function rowlease_internal.describe_session(p_pid integer) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(
    (select format('session %s (user "%s", application "%s"%s)', a.pid, a.usename,
                   a.application_name,
                   ', in a transaction since ' || date_trunc('second', a.xact_start))
       from pg_stat_activity a where a.pid = p_pid),
    'a prepared transaction (see pg_prepared_xacts)');
$$;
