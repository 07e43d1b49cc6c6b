-- sweep_attempts: drop attempts whose request is gone.
-- params:   p_now timestamptz, p_limit integer
-- returns:  bigint -- how many were dropped
-- errors:   none
-- locks:    rows of attempt, exclusive, skipping locked ones
-- why:      an attempt is checked at its expires_time. If its request is still in queue, the next
--           check is a day later. If it is in the history, the next check is at the end of its
--           retention. So a request that finishes after a day costs two checks, and a dead letter
--           costs one a day.
create or replace function rowlease_internal.sweep_attempts(p_now timestamptz, p_limit integer)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_days    integer := (select max(s.retention_days) from rowlease.queue_settings s);
  v_dropped bigint;
begin
  with due as materialized (
    select a.request_id, a.lock_token from rowlease.attempt a
     where a.expires_time <= p_now
     order by a.expires_time limit p_limit
       for update skip locked),
  judged as materialized (
    select d.request_id, d.lock_token,
           case when exists (select from rowlease.queue q
                              where q.request_id = any(array[d.request_id])) then p_now
                else (select max(h.completion_time) + make_interval(days => v_days)
                        from rowlease.queue_history h where h.request_id = d.request_id) end as needed
      from due d),
  kept as (
    update rowlease.attempt a set expires_time = greatest(j.needed, p_now) + interval '1 day'
      from judged j
     where a.request_id = j.request_id and a.lock_token = j.lock_token and j.needed is not null),
  dropped as (
    delete from rowlease.attempt a
     using judged j
     where a.request_id = j.request_id and a.lock_token = j.lock_token and j.needed is null
    returning a.request_id)
  select count(*) into v_dropped from dropped;
  return v_dropped;
end $$;
