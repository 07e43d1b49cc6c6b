-- break_expired: end leases that have expired; each request is retried or becomes a dead letter.
-- params:   p_queue_name text, p_now timestamptz, p_from timestamptz, p_limit integer
-- returns:  integer -- how many leases were broken
-- errors:   none
-- locks:    rows of queue, exclusive, in expiry order, skipping locked ones
-- why:      a lease of a started request that runs out counts as a crash; for a request that was only
--           prefetched, the attempt is not counted. It is kept in attempt nevertheless, because the
--           worker may have started it without having reported it. Too many crashes make the request
--           a dead letter, whatever its max_attempts is. lock_expires_time stays, to show what
--           happened; the token stays, too, so that the late worker gets lease_lost. Errors are
--           grouped by their first line, so varying details are in the second line.
create or replace function rowlease_internal.break_expired(
  p_queue_name text, p_now timestamptz, p_from timestamptz, p_limit integer
) returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_broken        integer;
  v_dead_queues   text[];
  v_dead_groups   text[];
  v_dead_ids      bigint[];
  v_cancelled_ids bigint[];
  v_ids           bigint[];
begin
  with expired as materialized (
    select q.request_id, q.cancel_requested, q.started_time is not null as started,
           q.num_crashes + (q.started_time is not null)::int as crashes,
           q.num_attempts - (q.started_time is null)::int as attempts
      from rowlease.queue q
     where q.queue_name = p_queue_name and q.status = 'Processing'
       and q.lock_expires_time <= p_now and q.lock_expires_time >= p_from
     order by q.lock_expires_time
     limit p_limit
       for no key update skip locked),
  judged as (
    select e.*, case when e.crashes >= s.max_crashes then 'too many crashes: '
                     when e.attempts >= q.max_attempts then 'no attempts left: ' end as verdict,
           q.lock_token, q.locked_by, coalesce(q.started_time, q.locked_time) as started_time,
           q.num_attempts, format(
             e'the lease ran out; its worker was killed, stopped or cut off%s\n'
             'worker %s, lease until %s, crash %s',
             case when not e.started then '; it may have run, though no start was reported' end,
             q.locked_by, q.lock_expires_time, e.crashes) as error
      from expired e
      join rowlease.queue q on q.request_id = any(array[e.request_id])
      join rowlease.queue_settings s on s.queue_name = p_queue_name),
  broken as (
    update rowlease.queue q
       set status = case when j.verdict is null then 'Pending' else 'Failed' end,
           returned = j.verdict is null,
           completion_time = case when j.verdict is not null then p_now end,
           last_error = case when j.started or j.verdict is not null
             then coalesce(j.verdict, '') || j.error else q.last_error end,
           num_crashes = j.crashes, num_attempts = j.attempts,
           num_abandons = case when j.started then 0 else q.num_abandons end,
           locked_by = null, started_time = null, cancel_requested = false
      from judged j
     where q.request_id = any(array[j.request_id]) and q.locked_by is not null
    returning q.request_id, q.priority, q.load_id, q.status, q.group_key, j.cancel_requested),
  kept as (
    insert into rowlease.attempt (request_id, lock_token, attempt_number, worker_id, started_time,
                                  ended_time, outcome, error, expires_time)
    select j.request_id, j.lock_token, j.num_attempts, j.locked_by, j.started_time, p_now,
           'lease_lost', j.error, p_now + interval '1 day'
      from judged j
        on conflict do nothing),
  counted as (
    insert into rowlease.queue_depth (queue_name, priority, load_id, processing, pending, failed)
    select p_queue_name, b.priority, b.load_id, -count(*), count(*) filter (where b.status = 'Pending'),
           count(*) filter (where b.status = 'Failed')
      from broken b group by b.priority, b.load_id)
  select count(*),
         array_agg(p_queue_name) filter (where b.status = 'Failed' and b.group_key is not null),
         array_agg(b.group_key) filter (where b.status = 'Failed' and b.group_key is not null),
         array_agg(b.request_id) filter (where b.status = 'Failed'),
         array_agg(b.request_id) filter (where b.cancel_requested),
         array_agg(b.request_id)
    into v_broken, v_dead_queues, v_dead_groups, v_dead_ids, v_cancelled_ids, v_ids
    from broken b;
  if v_ids is not null then
    perform rowlease_internal.trim_attempts(v_ids);
  end if;
  perform rowlease_internal.after_leases(v_dead_queues, v_dead_groups, v_cancelled_ids, null, v_dead_ids,
                                         p_now);
  return v_broken;
end $$;
