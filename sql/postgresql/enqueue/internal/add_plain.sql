-- add_plain: insert the requests of an enqueue call without keys.
-- params:   p_settings rowlease.queue_settings, p_now timestamptz, p_request_ids bigint[],
--           p_kinds text[], p_payloads text[], p_priorities integer[], p_delays_ms bigint[],
--           p_due_times timestamptz[], p_max_attempts integer[], p_retry_bases_ms integer[],
--           p_headers text[], p_batch_id text
-- returns:  boolean -- true
-- errors:   RL003 bad priority, RL004 bad payload, RL006 no kind, RL007 attempts below 1,
--           RL016 bad headers
-- locks:    none
-- why:      without a dedup key nothing can conflict, and without a group nothing is blocked. Most
--           calls have neither, so they pay only for a plain insert; add_requests costs twice as
--           much. Arrays of different lengths are refused, because a kind would be missing.
create or replace function rowlease_internal.add_plain(
  p_settings rowlease.queue_settings, p_now timestamptz, p_request_ids bigint[], p_kinds text[],
  p_payloads text[], p_priorities integer[], p_delays_ms bigint[], p_due_times timestamptz[],
  p_max_attempts integer[], p_retry_bases_ms integer[], p_headers text[], p_batch_id text
) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  with added as (
    insert into rowlease.queue (
      request_id, queue_name, kind, status, priority, requested_time, due_time, max_attempts,
      retry_base_ms, load_id, payload, headers)
    overriding system value
    select g.id, p_settings.queue_name, g.kind,
           case when g.due > p_now then 'Scheduled' else 'Pending' end,
           least(coalesce(g.priority, 0), p_settings.max_priority), p_now, g.due,
           coalesce(g.max_attempts, p_settings.max_attempts), g.retry_base_ms,
           p_batch_id, coalesce(g.payload, '{}')::json, g.headers::json
      from (select g.*,
                   greatest(coalesce(g.due_time, p_now + g.delay_ms * interval '1 ms', p_now),
                            p_now) as due
              from (select unnest(p_request_ids) as id, unnest(p_kinds) as kind,
                           unnest(p_payloads) as payload, unnest(p_priorities) as priority,
                           unnest(p_delays_ms) as delay_ms, unnest(p_due_times) as due_time,
                           unnest(p_max_attempts) as max_attempts,
                           unnest(p_retry_bases_ms) as retry_base_ms,
                           unnest(p_headers) as headers) g
             where case when rowlease_internal.is_acceptable(g.kind, g.priority, g.payload,
                                                             g.max_attempts) then true
                        else rowlease_internal.check_request(g.kind, g.priority, g.payload,
                                                             g.max_attempts) end
               and case when g.headers is null then true
                        else rowlease_internal.check_headers(g.headers) end) g
    returning priority, status)
  insert into rowlease.queue_depth (queue_name, priority, load_id, scheduled, pending)
  select p_settings.queue_name, a.priority, p_batch_id, count(*) filter (where a.status = 'Scheduled'),
         count(*) filter (where a.status = 'Pending')
    from added a group by a.priority;
  return true;
end $$;
