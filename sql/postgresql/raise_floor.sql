-- raise_floor: lift a queue's floor past what a claim has just taken or found empty.
-- params:   p_floor jsonb, p_now timestamptz, p_priorities integer[],
--           p_due_times timestamptz[], p_request_ids bigint[], p_empty integer[],
--           p_moved_all boolean
-- returns:  jsonb -- 'moved': nothing scheduled or expired is left below this time; 'claimed': per
--           priority, the key (due time, request id) below which nothing waits
-- errors:   none
-- locks:    none
-- why:      never into the last 50 ms, where enqueues may be committing just now. p_empty lists
--           the priorities that were looked through to their end.
create or replace function rowlease.raise_floor(
  p_floor jsonb, p_now timestamptz, p_priorities integer[],
  p_due_times timestamptz[], p_request_ids bigint[], p_empty integer[], p_moved_all boolean
) returns jsonb
language sql immutable
return jsonb_build_object(
  'moved', case when p_moved_all then to_jsonb(p_now - interval '50 ms') else p_floor -> 'moved' end,
  'claimed', coalesce(p_floor -> 'claimed', '{}') || (
    select coalesce(jsonb_object_agg(k.priority, jsonb_build_array(k.due_time, k.request_id)), '{}')
      from (select distinct on (c.priority) c.priority,
                   least(c.due_time, p_now - interval '50 ms') as due_time,
                   case when c.due_time <= p_now - interval '50 ms' then c.request_id else 0 end
                     as request_id
              from (select * from unnest(p_priorities, p_due_times, p_request_ids)
                             as u(priority, due_time, request_id)
                    union all
                    select p, 'infinity', 0 from unnest(p_empty) p) c
             order by c.priority, c.due_time desc, c.request_id desc) k));
