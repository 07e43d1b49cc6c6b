-- do_verb: apply the verb of an operation to these requests.
-- params:   p_verb text, p_request_ids bigint[], p_arguments jsonb, p_operation_id bigint,
--           p_started timestamptz (when the operation began), p_now timestamptz
-- returns:  request_id bigint, outcome text, new_request_id bigint
-- errors:   as enqueue_many
-- locks:    as unblock_groups and enqueue_many; the caller has locked the rows of queue
-- why:      each verb has its own routine; this routine passes the arguments.
create or replace function rowlease_internal.do_verb(
  p_verb text, p_request_ids bigint[], p_arguments jsonb, p_operation_id bigint,
  p_started timestamptz, p_now timestamptz
) returns table (request_id bigint, outcome text, new_request_id bigint)
language plpgsql
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
declare
  v_queues text[] := array(
    select distinct q.queue_name from unnest(p_request_ids) as u(id)
      join rowlease.queue q on q.request_id = any(array[u.id]) order by 1);
  v_name   text;
begin
  if p_verb = 'cancel' then
    return query
      select c.request_id, c.outcome, null::bigint
        from rowlease_internal.cancel_requests(p_request_ids, p_operation_id) c;
  elsif p_verb = 'requeue' then
    return query
      select r.request_id, coalesce(c.outcome, r.outcome), c.new_request_id
        from rowlease_internal.revive(p_request_ids, p_now) r
        left join rowlease_internal.copy_finished(p_request_ids, p_operation_id) c
          on c.request_id = r.request_id;
  elsif p_verb = 'reprioritise' then
    perform rowlease_internal.change_priority(p_request_ids, (p_arguments ->> 'priority')::integer);
  elsif p_verb = 'reschedule' then
    perform rowlease_internal.change_due_time(
      p_request_ids, p_now, coalesce((p_arguments ->> 'due_time')::timestamptz,
                            p_started + (p_arguments ->> 'delay_ms')::bigint * interval '1 ms', p_now));
  elsif p_verb = 'break' then
    perform rowlease_internal.end_leases(p_request_ids, p_now);
  else
    perform rowlease_internal.purge_requests(p_request_ids);
  end if;
  foreach v_name in array v_queues loop
    if p_verb in ('cancel', 'purge') then
      perform rowlease_internal.wake_producers(v_name);
    elsif p_verb <> 'reprioritise' then
      perform rowlease_internal.wake_workers(v_name, true);
    end if;
  end loop;
  if p_verb not in ('cancel', 'requeue') then
    return query select u.id, 'ok', null::bigint from unnest(p_request_ids) as u(id);
  end if;
end $$;
