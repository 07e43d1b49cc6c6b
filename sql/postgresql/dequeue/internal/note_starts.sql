-- note_starts: record the starts of a claim from a queue with a rate.
-- params:   p_settings rowlease.queue_settings, p_request_ids bigint[] (leased by this claim)
-- returns:  timestamptz -- when the queue's rate permits the next start; null: now
-- errors:   none
-- locks:    none -- dequeue has taken the gate of the queue
-- why:      each row has the sum of its own and all earlier starts, so that room_in_rate reads two
--           rows. Times of a key never go back, even if the clock does. A claim takes one request of
--           a group at most. A start counts from the write of its row, as its lease does, so the clock
--           is read here.
create or replace function rowlease_internal.note_starts(
  p_settings rowlease.queue_settings, p_request_ids bigint[]
) returns timestamptz
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_now timestamptz := rowlease.now();
begin
  insert into rowlease.rate_start (queue_name, rate_key, started_time, total, num_starts, expires_time)
  select p_settings.queue_name, k.rate_key, greatest(v_now, l.started_time),
         coalesce(l.total, 0) + k.num_starts, k.num_starts,
         greatest(v_now, l.started_time) + split_part(k.rate, '/', 2)::interval
    from (select '' as rate_key, p_settings.rate as rate, cardinality(p_request_ids) as num_starts
           where p_settings.rate is not null and p_request_ids <> '{}'
          union all
          select ':' || q.group_key, p_settings.group_rate, 1
            from unnest(p_request_ids) as u(id)
            join rowlease.queue q on q.request_id = any(array[u.id])
           where p_settings.group_rate is not null and q.group_key is not null) k
    left join lateral (
      select r.started_time, r.total from rowlease.rate_start r
       where r.queue_name = p_settings.queue_name and r.rate_key = k.rate_key
       order by r.started_time desc, r.total desc limit 1) l on true;
  return (select r.next_start
            from rowlease_internal.room_in_rate(p_settings.queue_name, '', p_settings.rate, v_now) r
           where r.room = 0);
end $$;
