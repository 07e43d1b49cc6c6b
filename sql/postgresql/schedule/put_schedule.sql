-- put_schedule: create a schedule, or change the schedule of this name.
-- params:   p_schedule_name text, p_cron text (minute hour day month weekday; six
--           fields begin with seconds), p_kind text,
--           p_queue_name text, p_time_zone text, p_payload text ({scheduled_time} in it becomes
--           the time of each firing), p_priority integer, p_catch_up integer (how many missed
--           firings are enqueued late; the latest are), p_headers text (of each firing),
--           p_actor text (the operator's name)
-- returns:  outcome text -- 'ok' | 'repeat' (unchanged), changed_time timestamptz -- if no firing
--           is planned yet, firings are counted from this time
-- errors:   RL002 unknown queue, RL003 bad priority, RL004 bad payload, RL006 no kind, RL013 bad
--           name, expression, time zone or catch-up, RL016 bad headers
-- locks:    the schedule's row
-- why:      every worker writes the schedules of its code when it starts, so an unchanged schedule
--           stays as it is: no firing is missed during a restart, and a paused schedule stays
--           paused. A change sets a new lock token, so a worker that is firing the schedule at
--           that time is refused. Only workers can evaluate the expression, so they plan the first
--           firing.
create or replace function rowlease.put_schedule(
  p_schedule_name text, p_cron text, p_kind text, p_queue_name text default 'default',
  p_time_zone text default 'UTC', p_payload text default '{}', p_priority integer default 0,
  p_catch_up integer default 1, p_headers text default null, p_actor text default null
) returns table (outcome text, changed_time timestamptz)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now  timestamptz := rowlease.now();
  v_cron text := btrim(regexp_replace(p_cron, '\s+', ' ', 'g'));
  v_old  rowlease.schedule;
  v_new  boolean;
begin
  perform rowlease_internal.check_queue(p_queue_name);
  perform rowlease_internal.check_request(p_kind, p_priority, p_payload, null);
  perform rowlease_internal.check_names(p_payload::json);
  perform rowlease_internal.check_headers(p_headers);
  if (coalesce(p_schedule_name, '') <> '' and length(p_schedule_name) <= 200
      and p_schedule_name not like '% '
      and v_cron ~ '^\S+( \S+){4,5}$' and length(v_cron) <= 200 and coalesce(p_time_zone, '') <> ''
      and length(p_time_zone) <= 100 and p_catch_up between 1 and 1000) is not true then
    raise exception using errcode = 'RL013',
      message = 'a schedule needs a name without a blank at its end, a cron expression of five fields '
                '(minute hour day month '
                'weekday) or six (the first for seconds), a time zone and a catch-up of 1 to 1000 firings';
  end if;
  loop
    insert into rowlease.schedule (schedule_name, cron, time_zone, queue_name, kind, payload,
                                   headers, priority, catch_up, changed_time)
    values (p_schedule_name, v_cron, p_time_zone, p_queue_name, p_kind, p_payload::json,
            p_headers::json, least(p_priority, 255), p_catch_up, v_now)
    on conflict do nothing;
    v_new := found;
    select * into v_old from rowlease.schedule s where s.schedule_name = p_schedule_name for update;
    exit when found;  -- else it was removed since the insert
  end loop;
  if not v_new and (v_old.cron, v_old.time_zone, v_old.queue_name, v_old.kind, v_old.payload::text,
      coalesce(v_old.headers::text, ''), v_old.priority, v_old.catch_up)
     = (v_cron, p_time_zone, p_queue_name, p_kind, p_payload, coalesce(p_headers, ''),
        least(p_priority, 255), p_catch_up) then
    return query select 'repeat'::text, v_old.changed_time;
    return;
  end if;
  perform rowlease_internal.note_operation(
    'put_schedule', jsonb_build_object('schedule', p_schedule_name),
    jsonb_build_object('cron', v_cron, 'time_zone', p_time_zone, 'kind', p_kind, 'queue', p_queue_name),
    p_actor, v_now, true);
  if v_new then
    return query select 'ok'::text, v_now;
    return;
  end if;
  v_new := (v_old.cron, v_old.time_zone) <> (v_cron, p_time_zone);
  return query
    update rowlease.schedule s
       set cron = v_cron, time_zone = p_time_zone, queue_name = p_queue_name, kind = p_kind,
           payload = p_payload::json, headers = p_headers::json,
           priority = least(p_priority, 255), catch_up = p_catch_up,
           next_time = case when not v_new then s.next_time end,
           changed_time = case when v_new then v_now else s.changed_time end,
           locked_by = null, lock_expires_time = null, lock_token = s.lock_token + 1
     where s.schedule_name = p_schedule_name
    returning 'ok'::text, s.changed_time;
end $$;
