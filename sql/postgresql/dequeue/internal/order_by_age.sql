-- order_by_age: choose the priority whose oldest request ranks first when its waiting time is added.
-- params:   p_settings rowlease.queue_settings, p_floor_times timestamptz[], p_floor_ids bigint[]
-- returns:  priority integer, until timestamptz (a request that is due later ranks below the
--           oldest request of another priority) -- null if at most one priority has waiting
--           requests
-- errors:   none
-- locks:    none
-- why:      each aging_seconds of waiting count as one priority, so the request with the lowest
--           value of due time minus priority times aging_seconds goes first. A floor is a lower
--           bound for the oldest due time, so only the best two priorities have to be probed.
create or replace function rowlease_internal.order_by_age(
  p_settings rowlease.queue_settings, p_floor_times timestamptz[], p_floor_ids bigint[],
  out priority integer, out until timestamptz
) language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_aging    interval := p_settings.policy_aging_seconds * interval '1 second';
  v_past     timestamptz[] := array_fill(null::timestamptz, array[cardinality(p_floor_times)]);
  v_oldest   timestamptz[] := p_floor_times;  -- lower bounds; null: nothing waits
  v_known    boolean[] := array_fill(false, array[cardinality(p_floor_times)]);
  v_best     integer;
  v_next     integer;
  v_look     integer;
  v_found    record;
begin
  for v_found in select r.priority, r.due_time from rowlease_internal.first_past_floors(
                   p_settings.queue_name, p_settings.max_priority) r loop
    v_past[v_found.priority + 1] := least(v_found.due_time, v_past[v_found.priority + 1]);
    v_oldest[v_found.priority + 1] := least(v_found.due_time, v_oldest[v_found.priority + 1]);
  end loop;
  loop
    v_best := null;
    v_next := null;
    for v_look in reverse cardinality(v_oldest) .. 1 loop
      continue when v_oldest[v_look] is null;
      if v_best is null or v_oldest[v_look] + (v_best - v_look) * v_aging < v_oldest[v_best] then
        v_next := v_best;
        v_best := v_look;
      elsif v_next is null or v_oldest[v_look] + (v_next - v_look) * v_aging < v_oldest[v_next] then
        v_next := v_look;
      end if;
    end loop;
    v_look := case when not v_known[v_best] then v_best when not v_known[v_next] then v_next end;
    exit when v_look is null;
    v_known[v_look] := true;
    v_oldest[v_look] := least(v_past[v_look], rowlease_internal.oldest_due_time(
      p_settings.queue_name, v_look - 1, p_floor_times[v_look], p_floor_ids[v_look]));
  end loop;
  if v_next is not null then
    priority := v_best - 1;
    until := v_oldest[v_next] + (v_best - v_next) * v_aging;
  end if;
end $$;
