-- raise_floor: lift a queue's floor past what a claim has just taken or found empty.
-- params:   p_floor jsonb, p_moved timestamptz, p_priorities integer[], p_due_times timestamptz[],
--           p_request_ids bigint[], p_order integer[], p_quotas integer[], p_until timestamptz,
--           p_limit integer
-- returns:  jsonb -- 'claimed': per priority, the key (due time, request id) below which nothing
--           waits; what else the floor holds stays
-- errors:   none
-- locks:    none
-- why:      the first three arrays are what the claim met, in its order; the rest is what was asked
--           for: a priority that gave less than its quota was looked through to its end. Never past
--           p_moved: what is due later may still be on its way; and never down, where returned ones
--           stand.
create or replace function rowlease.raise_floor(
  p_floor jsonb, p_moved timestamptz, p_priorities integer[], p_due_times timestamptz[],
  p_request_ids bigint[], p_order integer[], p_quotas integer[], p_until timestamptz,
  p_limit integer
) returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  return p_floor || jsonb_build_object('claimed', coalesce(p_floor -> 'claimed', '{}') || (
    with claimed as (
      select c.priority, count(*) as met, (array_agg(c.due_time))[count(*)] as due_time,
             (array_agg(c.request_id))[count(*)] as request_id
        from unnest(p_priorities, p_due_times, p_request_ids) as c(priority, due_time, request_id)
       group by c.priority),
    passed as (
      select c.priority, c.due_time, c.request_id from claimed c
      union all
      select o.priority, (f.key ->> 0)::timestamptz, (f.key ->> 1)::bigint
        from unnest(p_order) as o(priority)
       cross join lateral (select p_floor -> 'claimed' -> o.priority::text as key) f
       where f.key is not null
      union all
      select o.priority, 'infinity', 0
        from unnest(p_order, p_quotas) as o(priority, quota)
       where p_until = 'infinity'
         and o.quota > coalesce((select c.met from claimed c where c.priority = o.priority), 0)
         and (cardinality(p_request_ids) < p_limit
              or o.priority > (select min(c.priority) from claimed c)))
    select coalesce(jsonb_object_agg(k.priority, jsonb_build_array(k.due_time, k.request_id)), '{}')
      from (select distinct on (p.priority) p.priority,
                   least(p.due_time, p_moved) as due_time,
                   case when p.due_time <= p_moved then p.request_id else 0 end
                     as request_id
              from passed p
             order by p.priority, p.due_time desc, p.request_id desc) k));
end $$;
