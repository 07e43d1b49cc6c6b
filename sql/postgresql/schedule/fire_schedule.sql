-- fire_schedule: enqueue the firings of a schedule that are due, and plan the next one.
-- params:   p_schedule_name text, p_lock_token bigint (null: an operator fires it once, now, and
--           its plan does not change), p_due_times timestamptz[] (empty: only plan the next
--           firing), p_next_time timestamptz, p_actor text (the operator's name)
-- returns:  request_id bigint, outcome text -- 'ok' | 'duplicate' for each firing, or one row:
--           'repeat' (this token has fired) | 'lease_lost' | 'not_found'; if there are no firings,
--           one 'ok'
-- errors:   RL001 firings that are not due, or not before p_next_time, RL002 unknown queue, RL003
--           bad priority, RL004 bad payload, RL005 queue is full, RL006 no kind,
--           RL016 bad headers
-- locks:    the schedule's row; queue_settings if the queue has a capacity; as add_requests
-- why:      the requests and the next time are written in one transaction, which is
--           compare-and-set on the token: a late worker is refused, because another worker fires
--           the schedule instead. The dedup key of a request consists of the name of its schedule
--           and the time of its firing.
create or replace function rowlease.fire_schedule(
  p_schedule_name text, p_lock_token bigint default null, p_due_times timestamptz[] default null,
  p_next_time timestamptz default null, p_actor text default null
) returns table (request_id bigint, outcome text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_xid      xid8 := pg_current_xact_id();  -- must be assigned before the clock is read: see floor_in_force
  v_now      timestamptz;
  v_schedule rowlease.schedule;
  v_times    timestamptz[] := p_due_times;
  v_texts    text[];
  v_ids      bigint[];
  v_outcomes text[];
begin
  select * into v_schedule
    from rowlease.schedule s where s.schedule_name = p_schedule_name for update;
  v_now := rowlease.now();
  if not found then
    return query select null::bigint, 'not_found'::text;
    return;
  elsif p_lock_token is null then
    v_times := array[v_now];
  elsif v_schedule.lock_token <> p_lock_token or v_schedule.locked_by is null then
    return query
      select case when v_schedule.lock_token = p_lock_token then v_schedule.last_request_id end,
             case when v_schedule.lock_token = p_lock_token then 'repeat' else 'lease_lost' end;
    return;
  elsif v_times is null or v_now < any(v_times) or p_next_time is null
        or p_next_time <= any(v_times) then
    raise exception using errcode = 'RL001',
      message = format('a firing of "%s" is not due yet, or is not before p_next_time', p_schedule_name);
  end if;
  if cardinality(v_times) > 0 then
    select array_agg((to_json(t at time zone 'UTC') #>> '{}') || 'Z' order by place) into v_texts
      from unnest(v_times) with ordinality as u(t, place);
    select array_agg(a.request_id), array_agg(a.outcome) into v_ids, v_outcomes
      from rowlease_internal.add_requests(
        rowlease_internal.check_capacity(v_schedule.queue_name, cardinality(v_times), v_schedule.priority, v_now), v_now,
        array_fill(v_schedule.kind::text, array[cardinality(v_times)]),
        array(select replace(v_schedule.payload::text, '{scheduled_time}', t) from unnest(v_texts) t),
        array_fill(v_schedule.priority::integer, array[cardinality(v_times)]), null, null,
        array(select p_schedule_name || '@' || t from unnest(v_texts) t), null, null, null,
        array_fill(v_schedule.headers::text, array[cardinality(v_times)])) a;
    perform rowlease_internal.wake_workers(v_schedule.queue_name, p_lock_token is null);
  end if;
  update rowlease.schedule s
     set last_time = coalesce(v_times[cardinality(v_times)], s.last_time),
         last_request_id = coalesce(v_ids[cardinality(v_ids)], s.last_request_id),
         next_time = case when p_lock_token is null then s.next_time else p_next_time end,
         locked_by = case when p_lock_token is null then s.locked_by end,
         lock_expires_time = case when p_lock_token is null then s.lock_expires_time end
   where s.schedule_name = p_schedule_name;
  if p_lock_token is null then
    perform rowlease_internal.note_operation(
      'fire_schedule', jsonb_build_object('schedule', p_schedule_name), null, p_actor, v_now, true);
  end if;
  return query
    select u.id, u.answer
      from unnest(coalesce(v_ids, '{null}'), coalesce(v_outcomes, '{ok}')) as u(id, answer);
end $$;
