-- report_dead_letters: enqueue the requests for the tasks that run when requests have become dead letters.
-- params:   p_request_ids bigint[] (dead letters), p_now timestamptz
-- returns:  void
-- errors:   none
-- locks:    as wake_workers; the caller has locked the requests
-- why:      it belongs to the transaction that makes the dead letters, so each is reported once, and
--           however it came about. The new requests are marked as returned: their due time may be
--           below a floor, because the clock was read before the transaction had an id. They need no
--           room in a queue with a capacity.
create or replace function rowlease_internal.report_dead_letters(p_request_ids bigint[], p_now timestamptz)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_queues text[];
  v_name   text;
begin
  with added as (
    insert into rowlease.queue (queue_name, kind, status, priority, requested_time, due_time,
                                max_attempts, returned, payload)
    select t.task_queue, t.task_kind, 'Pending', 0, p_now, p_now, s.max_attempts, true,
           json_build_object('request_id', q.request_id, 'kind', q.kind, 'error', q.last_error)
      from unnest(p_request_ids) as u(id)
      join rowlease.queue q on q.request_id = any(array[u.id])
      join rowlease.dead_letter_task t on t.queue_name = q.queue_name and t.kind = q.kind
      join rowlease.queue_settings s on s.queue_name = t.task_queue
    returning queue_name),
  counted as (
    insert into rowlease.queue_depth (queue_name, priority, pending)
    select a.queue_name, 0, count(*) from added a group by a.queue_name)
  select array_agg(distinct a.queue_name) into v_queues from added a;
  foreach v_name in array coalesce(v_queues, '{}') loop
    perform rowlease_internal.wake_workers(v_name, false);
  end loop;
end $$;
