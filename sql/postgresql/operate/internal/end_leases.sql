-- end_leases: end the leases of running requests, for an operator.
-- params:   p_request_ids bigint[], p_now timestamptz
-- returns:  void
-- errors:   none
-- locks:    as trim_attempts and unblock_groups; the caller has locked the rows
-- why:      as break_expired, with two differences. It does not count as a crash, because no worker
--           died. The token is raised at once, so that every report with the old token is refused.
--           The attempt counts if it had started.
create or replace function rowlease_internal.end_leases(p_request_ids bigint[], p_now timestamptz)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
as $$
declare
  v_dead_queues   text[];
  v_dead_groups   text[];
  v_dead_ids      bigint[];
  v_cancelled_ids bigint[];
  v_started_ids   bigint[];
begin
  with old as materialized (
    select q.request_id, q.lock_token, q.locked_by, q.started_time, q.cancel_requested,
           q.started_time is not null as started,
           q.num_attempts - (q.started_time is null)::int as attempts,
           q.num_attempts - (q.started_time is null)::int >= q.max_attempts as dead,
           format(e'an operator ended the lease\nworker %s', q.locked_by) as error
      from unnest(p_request_ids) as u(id)
      join rowlease.queue q on q.request_id = any(array[u.id])
     where q.locked_by is not null),
  broken as (
    update rowlease.queue q
       set status = case when o.dead then 'Failed' else 'Pending' end, returned = not o.dead,
           completion_time = case when o.dead then p_now end,
           last_error = case when o.dead then 'no attempts left: ' || o.error
                             when o.started then o.error else q.last_error end,
           num_attempts = o.attempts, lock_token = q.lock_token + 1,
           num_abandons = case when o.started then 0 else q.num_abandons end,
           locked_by = null, started_time = null, cancel_requested = false
      from old o where q.request_id = any(array[o.request_id])
    returning q.request_id, q.queue_name, q.priority, q.load_id, q.status, q.group_key,
              o.cancel_requested, o.started),
  kept as (
    insert into rowlease.attempt (request_id, lock_token, attempt_number, worker_id, started_time,
                                  ended_time, outcome, error, expires_time)
    select o.request_id, o.lock_token, o.attempts, o.locked_by, o.started_time, p_now, 'lease_lost',
           o.error, p_now + interval '1 day'
      from old o where o.started
        on conflict do nothing),
  counted as (
    insert into rowlease.queue_depth (queue_name, priority, load_id, processing, pending, failed)
    select b.queue_name, b.priority, b.load_id, -count(*), count(*) filter (where b.status = 'Pending'),
           count(*) filter (where b.status = 'Failed')
      from broken b group by b.queue_name, b.priority, b.load_id)
  select array_agg(b.queue_name) filter (where b.status = 'Failed' and b.group_key is not null),
         array_agg(b.group_key) filter (where b.status = 'Failed' and b.group_key is not null),
         array_agg(b.request_id) filter (where b.status = 'Failed'),
         array_agg(b.request_id) filter (where b.cancel_requested),
         array_agg(b.request_id) filter (where b.started)
    into v_dead_queues, v_dead_groups, v_dead_ids, v_cancelled_ids, v_started_ids
    from broken b;
  if v_started_ids is not null then
    perform rowlease_internal.trim_attempts(v_started_ids);
  end if;
  perform rowlease_internal.after_leases(v_dead_queues, v_dead_groups, v_cancelled_ids, null, v_dead_ids,
                                         p_now);
end $$;
