-- configure_queue: create a queue, or change the given settings of a queue.
-- params:   p_queue_name text, p_settings json (names of columns of queue_settings, and values),
--           p_actor text (the operator's name)
-- returns:  json -- all settings after the change
-- errors:   RL010 unknown setting or a value out of range
-- locks:    the queue's settings row; a new queue's gate; waiting requests above a lowered
--           max_priority
-- why:      a queue is created explicitly: a misspelt name in an enqueue is an error, not a new
--           queue. Idle workers and waiting producers are notified, because they may be able to
--           continue with the new settings.
create or replace function rowlease.configure_queue(
  p_queue_name text, p_settings json default '{}', p_actor text default null
) returns json
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_unknown  text;
  v_settings rowlease.queue_settings;
  v_max      integer;
begin
  if p_queue_name like '% ' then
    raise exception using errcode = 'RL010', message = 'the name of a queue must not end in a blank';
  end if;
  if json_typeof(p_settings) <> 'object' then
    raise exception using errcode = 'RL010', message = 'the settings must be a JSON object';
  end if;
  select k into v_unknown from json_object_keys(p_settings) k
   where k in ('queue_name', 'consumer_priorities')
      or k not in (select a.attname from pg_attribute a
                    where a.attrelid = 'rowlease.queue_settings'::regclass and a.attnum > 0);
  if found then
    raise exception using errcode = 'RL010', message = format(
      'there is no setting "%s"; the settings are the columns of queue_settings', v_unknown);
  end if;
  insert into rowlease.queue_settings (queue_name) values (p_queue_name) on conflict do nothing;
  insert into rowlease.gate (queue_name) values (p_queue_name) on conflict do nothing;
  select * into v_settings from rowlease.queue_settings s where s.queue_name = p_queue_name for update;
  v_max := v_settings.max_priority;
  v_settings := json_populate_record(v_settings, p_settings);
  if (select bool_or(case when json_typeof(w) = 'number' then w::text::float8 < 0 else true end)
        from json_array_elements(case when json_typeof(v_settings.policy_weights) = 'array'
                                      then v_settings.policy_weights
                                      else '[null]' end) w
       where v_settings.policy_weights is not null) then
    raise exception using errcode = 'RL010',
      message = 'policy_weights must be an array of non-negative numbers: the weights of priority 0, '
                'priority 1 and so on';
  end if;
  update rowlease.queue_settings s
     set max_priority = v_settings.max_priority, capacity = v_settings.capacity, paused = v_settings.paused,
         lease_seconds = v_settings.lease_seconds, max_attempts = v_settings.max_attempts,
         max_crashes = v_settings.max_crashes, retry_base_ms = v_settings.retry_base_ms,
         retry_cap_ms = v_settings.retry_cap_ms, policy = v_settings.policy,
         policy_weights = v_settings.policy_weights, policy_aging_seconds = v_settings.policy_aging_seconds,
         max_in_flight = v_settings.max_in_flight, keep_history = v_settings.keep_history,
         retention_days = v_settings.retention_days, rate = v_settings.rate, group_rate = v_settings.group_rate,
         unknown_kind_seconds = v_settings.unknown_kind_seconds
   where s.queue_name = p_queue_name;
  perform rowlease_internal.end_delays(p_queue_name);
  if v_settings.max_priority < v_max then
    perform rowlease_internal.bring_in_high(p_queue_name, v_settings.max_priority, null);
    with lowered as (
      select q.request_id, q.priority, q.status from rowlease.queue q
       where q.queue_name = p_queue_name and q.priority > v_settings.max_priority
       order by q.request_id for no key update),
    moved as (
      update rowlease.queue q
         set priority = v_settings.max_priority, returned = q.returned or q.status = 'Pending'
        from lowered l where q.request_id = l.request_id)
    insert into rowlease.queue_depth (queue_name, priority, scheduled, pending, processing, failed)
    select p_queue_name, c.priority, sum(c.sign * (c.status = 'Scheduled')::integer),
           sum(c.sign * (c.status = 'Pending')::integer),
           sum(c.sign * (c.status = 'Processing')::integer), sum(c.sign * (c.status = 'Failed')::integer)
      from (select l.priority, l.status, -1 as sign from lowered l
            union all select v_settings.max_priority, l.status, 1 from lowered l) c
     group by c.priority;
  end if;
  perform rowlease_internal.wake_workers(p_queue_name, true), rowlease_internal.note_operation(
    'configure_queue', jsonb_build_object('queue', p_queue_name), p_settings::jsonb, p_actor, rowlease.now(), true);
  perform pg_notify('rowlease_room', p_queue_name);
  return row_to_json(v_settings);
exception
  when check_violation or not_null_violation or numeric_value_out_of_range
       or invalid_text_representation then
    raise exception using errcode = 'RL010',
      message = format('a setting of queue "%s" is out of range: %s', p_queue_name, case
        when sqlerrm like '%rate"' then 'a rate is like 100/1m; to stop a queue, pause it'
        else sqlerrm end);
end $$;
