-- claim_schedules: lease the schedules that are due, so that one worker fires each.
-- params:   p_worker_id text, p_lease_ms bigint, p_limit integer, p_kinds text[] (the kinds that
--           the worker knows; null: all)
-- returns:  one row per leased schedule: schedule_name text, cron text, time_zone text, catch_up
--           integer, next_time timestamptz (null: planned from changed_time on), changed_time
--           timestamptz, lock_token bigint, claimed_time timestamptz; then one row whose
--           schedule_name is null: wait_ms bigint until the next schedule is due or a lease runs
--           out
-- errors:   RL001 bad argument
-- locks:    rows of schedule, exclusive, skipping locked ones
-- why:      the lease keeps other workers from firing the same schedule concurrently; the token in
--           fire_schedule guarantees that nothing fires twice. If a worker dies before it fires,
--           another worker takes over when the lease has run out. claimed_time is the time by the
--           database's clock, which decides what firings are due. Tokens grow as in claim. A
--           schedule whose kind this worker does not know waits for a worker that knows it.
create or replace function rowlease.claim_schedules(
  p_worker_id text, p_lease_ms bigint default 10000, p_limit integer default 100,
  p_kinds text[] default null
) returns table (
  schedule_name text, cron text, time_zone text, catch_up integer, next_time timestamptz,
  changed_time timestamptz, lock_token bigint, claimed_time timestamptz, wait_ms bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
#variable_conflict use_column
declare
  v_now  timestamptz := rowlease.now();
  v_next timestamptz;
begin
  if (p_worker_id <> '' and p_lease_ms between 100 and 86400000
      and p_limit between 1 and 10000) is not true then
    raise exception using errcode = 'RL001',
      message = 'claim_schedules needs a worker id, a lease of 100 to 86400000 ms and a limit of 1 '
                'to 10000';
  end if;
  return query
    with unplanned as materialized (
      select s.schedule_name from rowlease.schedule s
       where not s.paused and (p_kinds is null or s.kind = any(p_kinds))
         and s.next_time is null
         and (s.lock_expires_time is null or s.lock_expires_time <= v_now)
       limit p_limit
         for update skip locked),
    planned as materialized (
      select s.schedule_name from rowlease.schedule s
       where not s.paused and (p_kinds is null or s.kind = any(p_kinds))
         and s.next_time <= v_now
         and (s.lock_expires_time is null or s.lock_expires_time <= v_now)
       order by s.next_time
       limit p_limit - (select count(*) from unplanned)
         for update skip locked),
    due as materialized (
      select u.schedule_name from unplanned u union all select p.schedule_name from planned p)
    update rowlease.schedule s
       set locked_by = p_worker_id, lock_expires_time = v_now + p_lease_ms * interval '1 ms',
           lock_token = s.lock_token + 1 + floor(random() * 4294967296)::bigint
      from due d
     where s.schedule_name = d.schedule_name
    returning s.schedule_name::text, s.cron::text, s.time_zone::text, s.catch_up, s.next_time,
              s.changed_time, s.lock_token, v_now, null::bigint;
  v_next := least(
    (select s.next_time from rowlease.schedule s
      where not s.paused and (p_kinds is null or s.kind = any(p_kinds))
        and s.next_time > v_now order by s.next_time limit 1),
    (select min(s.lock_expires_time) from rowlease.schedule s
      where not s.paused and (p_kinds is null or s.kind = any(p_kinds))
        and s.next_time <= v_now),
    (select min(s.lock_expires_time) from rowlease.schedule s
      where not s.paused and (p_kinds is null or s.kind = any(p_kinds))
        and s.next_time is null));
  claimed_time := v_now;
  wait_ms := case when isfinite(v_next)  -- a time set by hand may be 'infinity'
                  then greatest(0, ceil(extract(epoch from v_next - v_now) * 1000)) end;
  return next;
end $$;
