-- add_requests: insert the requests of an enqueue call with keys, and report which are new.
-- params:   p_settings rowlease.queue_settings, p_now timestamptz, p_kinds text[],
--           p_payloads text[], p_priorities integer[], p_delays_ms bigint[],
--           p_due_times timestamptz[], p_dedup_keys text[], p_group_keys text[],
--           p_max_attempts integer[], p_retry_bases_ms integer[], p_headers text[],
--           p_batch_id text
-- returns:  request_id bigint, outcome text -- 'ok' | 'duplicate' (with a null id if the earlier
--           request has just been finished), in the order given
-- errors:   RL003 bad priority, RL004 bad payload, RL006 no kind, RL007 attempts below 1,
--           RL016 bad headers
-- locks:    rows of queue with the same dedup key while their enqueue is not committed; the first
--           request of a group
-- why:      one statement inserts the whole batch. If several requests of a call have the same
--           dedup key, only the first is inserted. A request that follows another request of its
--           group in the call is inserted as blocked; if the other request turns out to be a
--           duplicate, nothing else would unblock it, so this routine does.
create or replace function rowlease_internal.add_requests(
  p_settings rowlease.queue_settings, p_now timestamptz, p_kinds text[], p_payloads text[],
  p_priorities integer[], p_delays_ms bigint[], p_due_times timestamptz[], p_dedup_keys text[],
  p_group_keys text[], p_max_attempts integer[], p_retry_bases_ms integer[], p_headers text[],
  p_batch_id text default null
) returns table (request_id bigint, outcome text)
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_ids bigint[];
begin
  with given as materialized (
    select row_number() over () as place, g.*,
           greatest(coalesce(g.due_time, p_now + g.delay_ms * interval '1 ms', p_now), p_now) as due,
           rowlease_internal.check_request(g.kind, g.priority, g.payload, g.max_attempts) as checked,
           case when g.headers is null then true
                else rowlease_internal.check_headers(g.headers) end as headers_checked
      from unnest(p_kinds, p_payloads, p_priorities, p_delays_ms, p_due_times, p_dedup_keys,
                  p_group_keys, p_max_attempts, p_retry_bases_ms, p_headers)
           as g(kind, payload, priority, delay_ms, due_time, dedup_key, group_key,
                max_attempts, retry_base_ms, headers)),
  -- If several requests of the call have the same key, only the first is inserted.
  fresh as materialized (
    select g.*, nextval('rowlease.queue_request_id_seq') as id,
           g.group_key is not null and row_number() over (
             partition by g.group_key order by g.place) > 1 as blocked
      from (select distinct on (coalesce('k' || g.dedup_key, 'p' || g.place)) g.*
              from given g order by coalesce('k' || g.dedup_key, 'p' || g.place), g.place) g
     order by g.place),
  added as (
    insert into rowlease.queue (
      request_id, queue_name, kind, status, priority, requested_time, due_time, max_attempts,
      retry_base_ms, dedup_key, group_key, group_blocked, load_id, payload, headers)
    overriding system value
    select f.id, p_settings.queue_name, f.kind,
           case when f.due > p_now then 'Scheduled' else 'Pending' end,
           least(coalesce(f.priority, 0), p_settings.max_priority), p_now, f.due,
           coalesce(f.max_attempts, p_settings.max_attempts), f.retry_base_ms, f.dedup_key,
           f.group_key, f.blocked, p_batch_id, coalesce(f.payload, '{}')::json, f.headers::json
      from fresh f
     order by f.place
    on conflict (queue_name, dedup_key) where dedup_key is not null and status <> 'Failed'
    do nothing
    returning request_id, priority, status),
  counted as (
    insert into rowlease.queue_depth (queue_name, priority, load_id, scheduled, pending)
    select p_settings.queue_name, a.priority, p_batch_id, count(*) filter (where a.status = 'Scheduled'),
           count(*) filter (where a.status = 'Pending')
      from added a group by a.priority)
  select array_agg(a.request_id order by g.place) into v_ids
    from given g
    left join fresh f on f.place = g.place
    left join added a on a.request_id = f.id;

  if p_group_keys is not null and array_position(v_ids, null) is not null then
    perform rowlease_internal.unblock_groups(
      array_fill(p_settings.queue_name::text, array[cardinality(p_group_keys)]), p_group_keys,
      false);
  end if;
  return query
    select coalesce(i.id, q.request_id), case when i.id is null then 'duplicate' else 'ok' end
      from unnest(v_ids, p_dedup_keys) with ordinality as i(id, dedup_key, place)
      left join rowlease.queue q on i.id is null and q.queue_name = p_settings.queue_name
           and q.dedup_key = i.dedup_key and q.status <> 'Failed'
     order by i.place;
end $$;
