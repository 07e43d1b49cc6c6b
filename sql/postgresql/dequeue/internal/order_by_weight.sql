-- order_by_weight: share the requests of a claim among the priorities by their weights.
-- params:   p_settings rowlease.queue_settings, p_limit integer, p_floor_times timestamptz[],
--           p_floor_ids bigint[]
-- returns:  priorities integer[], quotas integer[] -- null if no priority with a weight has
--           waiting requests
-- errors:   none
-- locks:    none
-- why:      only priorities with waiting requests get a share. One random offset for the whole
--           batch (systematic sampling) makes every share exact on average, for any batch size. A
--           floor that is the key of a request means that more requests were waiting there a
--           moment ago. The routine trusts this: a claim that finds nothing corrects the floor,
--           and the next round distributes the rest.
create or replace function rowlease_internal.order_by_weight(
  p_settings rowlease.queue_settings, p_limit integer, p_floor_times timestamptz[],
  p_floor_ids bigint[], out priorities integer[], out quotas integer[]
) language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_offset   float8 := random();
  v_past     integer[] := array(select r.priority from rowlease_internal.first_past_floors(
                                      p_settings.queue_name, p_settings.max_priority) r);
begin
  select array_agg(s.priority order by s.priority desc), array_agg(s.quota order by s.priority desc)
    into priorities, quotas
    from (select w.priority, (floor(p_limit * w.upto + v_offset)
                              - floor(p_limit * (w.upto - w.share) + v_offset))::integer as quota
            from (select w.priority, w.weight / sum(w.weight) over () as share,
                         sum(w.weight) over (order by w.priority) / sum(w.weight) over () as upto
                    from (select p as priority,
                                 coalesce((p_settings.policy_weights ->> p)::float8, p + 1) as weight
                            from generate_series(0, cardinality(p_floor_times) - 1) as p) w
                   where w.weight > 0
                     and case when p_floor_ids[w.priority + 1] > 0 or w.priority = any(v_past)
                              then true
                              else rowlease_internal.oldest_due_time(
                                p_settings.queue_name, w.priority, p_floor_times[w.priority + 1],
                                p_floor_ids[w.priority + 1]) is not null end) w) s
   where s.quota > 0;
end $$;
