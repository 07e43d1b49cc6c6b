-- note_operation: write down what an operator does, for the view operations.
-- params:   p_verb text, p_filter jsonb, p_arguments jsonb, p_actor text, p_now timestamptz,
--           p_finished boolean (true: one step does it all)
-- returns:  bigint -- the operation's id
-- errors:   none
-- locks:    none
-- why:      who it was is read from the session, which a caller cannot forge; the actor is what a
--           program with a login of its own says, such as the user of a dashboard.
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
