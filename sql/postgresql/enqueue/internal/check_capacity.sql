-- check_capacity: return a queue's settings if it has room for more requests.
-- params:   p_queue_name text, p_num_requests bigint, p_priority integer, p_now timestamptz,
--           p_waiter_id bigint, p_wait_ms bigint (null: full is an error)
-- returns:  rowlease.queue_settings -- all null if the queue is full
-- errors:   RL002 unknown queue, RL005 queue is full, 25000 as refuse_old_snapshot
-- locks:    the queue's settings row if it has a capacity; held to the caller's commit
-- why:      producers for a queue with a capacity count one after the other; otherwise two of them
--           could both find the last free place. The settings of other queues are read without a
--           lock. Places for producers ahead in line (of higher priority, or earlier at the same
--           priority) count as taken. A producer admitted after waiting notifies the next one, for
--           which there may be room too.
create or replace function rowlease_internal.check_capacity(
  p_queue_name text, p_num_requests bigint, p_priority integer, p_now timestamptz,
  p_waiter_id bigint default null, p_wait_ms bigint default null
) returns rowlease.queue_settings
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_settings rowlease.queue_settings;
  v_priority integer;
  v_waiting  bigint;
  v_ahead    bigint;
begin
  v_settings := rowlease_internal.check_queue(p_queue_name);
  if v_settings.capacity is null then
    return v_settings;
  end if;
  perform rowlease_internal.refuse_old_snapshot();
  select * into v_settings from rowlease.queue_settings s
   where s.queue_name = p_queue_name for update;
  v_priority := least(p_priority, v_settings.max_priority);
  select coalesce(sum(d.scheduled + d.pending), 0) into v_waiting
    from rowlease.queue_depth d where d.queue_name = p_queue_name;
  select coalesce(sum(w.num_requests), 0) into v_ahead from rowlease.queue_waiter w
   where w.queue_name = p_queue_name and w.expires_time > p_now
     and (w.priority > v_priority
          or w.priority = v_priority and w.waiter_id < coalesce(p_waiter_id, w.waiter_id + 1));
  if v_settings.capacity is null or v_waiting + v_ahead + p_num_requests <= v_settings.capacity then
    if p_waiter_id is not null and exists (
      select from rowlease.queue_waiter w
       where w.queue_name = p_queue_name and w.waiter_id <> p_waiter_id) then
      perform pg_notify('rowlease_room', p_queue_name);
    end if;
    return v_settings;
  elsif p_wait_ms = 0 or p_wait_ms > 0 and p_num_requests <= v_settings.capacity then
    return null;
  end if;
  raise exception using errcode = 'RL005',
    message = format('queue "%s" is full: %s of %s places are taken%s; %s more cannot fit',
                     p_queue_name, v_waiting, v_settings.capacity,
                     case when v_ahead > 0 then format(' and %s reserved', v_ahead) else '' end,
                     p_num_requests),
    hint = format('%s, or raise the capacity: rowlease queue set %s capacity=%s',
                  case when p_num_requests > v_settings.capacity then 'split the call'
                       else 'wait for workers' end, p_queue_name,
                  v_waiting + v_ahead + p_num_requests);
end $$;
