-- claim_schedules: lease the schedules that are due, so that one worker fires them.
-- params:   p_worker_id text, p_lease_ms bigint, p_limit integer
-- returns:  one row per leased schedule: schedule_name text, cron text, time_zone text,
--           catch_up integer, next_time timestamptz (null: planned from changed_time on),
--           changed_time timestamptz, lock_token bigint, claimed_time timestamptz; then one row
--           whose schedule_name is null: wait_ms bigint until the next is due or a lease runs out
-- errors:   RL001 bad argument
-- locks:    rows of schedule, exclusive, skipping locked ones
-- why:      the lease keeps others from trying the same; that nothing fires twice is for the token
--           in fire_schedule to see. A worker that dies in between is followed by another when the
--           lease runs out. claimed_time is the database's clock, by which firings are due.
create or replace function rowlease.claim_schedules(
  p_worker_id text, p_lease_ms bigint default 10000, p_limit integer default 100
) returns table (
  schedule_name text, cron text, time_zone text, catch_up integer, next_time timestamptz,
  changed_time timestamptz, lock_token bigint, claimed_time timestamptz, wait_ms bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := rowlease.now();
begin
  if (p_worker_id <> '' and p_lease_ms between 100 and 86400000
      and p_limit between 1 and 10000) is not true then
    raise exception using errcode = 'RL001',
      message = 'claim_schedules wants a worker id, a lease of 100 to 86400000 ms and a limit of 1 '
                'to 10000';
  end if;
  return query
    with due as materialized (
      select s.schedule_name from rowlease.schedule s
       where not s.paused and (s.next_time is null or s.next_time <= v_now)
         and (s.lock_expires_time is null or s.lock_expires_time <= v_now)
       order by s.next_time nulls first, s.schedule_name
       limit p_limit
         for update skip locked)
    update rowlease.schedule s
       set locked_by = p_worker_id, lock_expires_time = v_now + p_lease_ms * interval '1 ms',
           lock_token = s.lock_token + 1
      from due d
     where s.schedule_name = d.schedule_name
    returning s.schedule_name::text, s.cron::text, s.time_zone::text, s.catch_up, s.next_time,
              s.changed_time, s.lock_token, v_now, null::bigint;
  return query
    select null::text, null::text, null::text, null::integer, null::timestamptz,
           null::timestamptz, null::bigint, v_now,
           ceil(extract(epoch from
                  greatest(v_now, min(case when s.next_time > v_now then s.next_time
                                           else s.lock_expires_time end)) - v_now) * 1000)::bigint
      from rowlease.schedule s
     where not s.paused
    having count(*) > 0;
  if not found then
    return query select null::text, null::text, null::text, null::integer, null::timestamptz,
                        null::timestamptz, null::bigint, v_now, null::bigint;
  end if;
end $$;
