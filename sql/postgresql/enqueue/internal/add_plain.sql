-- add_plain: insert the requests of an enqueue call without keys.
-- params:   p_settings rowlease.queue_settings, p_now timestamptz, p_request_ids bigint[],
--           p_kinds text[], p_payloads text[], p_priorities integer[], p_delays_ms bigint[],
--           p_due_times timestamptz[], p_max_attempts integer[], p_retry_bases_ms integer[]
-- returns:  void
-- errors:   RL003 bad priority, RL004 bad payload, RL006 no kind, RL007 attempts below 1
-- locks:    none
-- why:      without a dedup key nothing can conflict, and without a group nothing is blocked. Most
--           calls have neither, so they pay only for a plain insert; add_requests costs twice as
--           much.
create or replace function rowlease_internal.add_plain(
  p_settings rowlease.queue_settings, p_now timestamptz, p_request_ids bigint[], p_kinds text[],
  p_payloads text[], p_priorities integer[], p_delays_ms bigint[], p_due_times timestamptz[],
  p_max_attempts integer[], p_retry_bases_ms integer[]
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
as $$
begin
  with added as (
    insert into rowlease.queue (
      request_id, queue_name, kind, status, priority, requested_time, due_time, max_attempts,
      retry_base_ms, payload)
    overriding system value
    select g.id, p_settings.queue_name, g.kind,
           case when g.due > p_now then 'Scheduled' else 'Pending' end,
           least(coalesce(g.priority, 0), p_settings.max_priority), p_now, g.due,
           coalesce(g.max_attempts, p_settings.max_attempts), g.retry_base_ms,
           coalesce(g.payload, '{}')::json
      from (select g.*, rowlease_internal.check_request(g.kind, g.priority, g.payload, g.max_attempts),
                   greatest(coalesce(g.due_time, p_now + g.delay_ms * interval '1 ms', p_now),
                            p_now) as due
              from unnest(p_request_ids, p_kinds, p_payloads, p_priorities, p_delays_ms,
                          p_due_times, p_max_attempts, p_retry_bases_ms)
                   as g(id, kind, payload, priority, delay_ms, due_time, max_attempts,
                        retry_base_ms)) g
    returning priority, status)
  insert into rowlease.queue_depth (queue_name, priority, scheduled, pending)
  select p_settings.queue_name, a.priority, count(*) filter (where a.status = 'Scheduled'),
         count(*) filter (where a.status = 'Pending')
    from added a group by a.priority;
end $$;
