-- note_operation: record an operation of an operator, for the view operations.
-- params:   p_verb text, p_filter jsonb, p_arguments jsonb, p_actor text, p_now timestamptz,
--           p_finished boolean (true: it has only one step)
-- returns:  bigint -- the operation's id
-- errors:   none
-- locks:    none
-- why:      the login is read from the session, because a caller cannot forge it. The actor is a name
--           that the calling program passes, such as the user of a dashboard.
create or replace function rowlease_internal.note_operation(
  p_verb text, p_filter jsonb, p_arguments jsonb, p_actor text, p_now timestamptz,
  p_finished boolean default false) returns bigint
language sql
set search_path = pg_catalog, pg_temp
as $$
  insert into rowlease.operation (verb, filter, arguments, actor, login, client_address, application,
                                  started_time, last_time, finished_time)
  values (p_verb, p_filter, coalesce(p_arguments, '{}'), left(p_actor, 200), left(session_user, 200),
          host(inet_client_addr()), left(current_setting('application_name'), 200), p_now, p_now,
          case when p_finished then p_now end)
  returning operation_id
$$;
