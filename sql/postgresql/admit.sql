-- admit: the settings of a queue, if it has room for more.
-- params:   p_queue_name text, p_num_requests bigint
-- returns:  rowlease.queue_settings
-- errors:   RL002 unknown queue, RL005 queue is full
-- locks:    the queue's settings row if it has a capacity; held to the caller's commit
-- why:      producers of a bounded queue count one after the other, or two of them would both find
--           the last place free; an unbounded queue is read without a lock.
create or replace function rowlease.admit(p_queue_name text, p_num_requests bigint)
returns rowlease.queue_settings
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_settings rowlease.queue_settings;
  v_waiting  bigint;
begin
  select * into v_settings from rowlease.queue_settings s where s.queue_name = p_queue_name;
  if not found then
    raise exception using errcode = 'RL002',
      message = format('queue "%s" does not exist', p_queue_name),
      hint = 'create it with rowlease.configure_queue';
  end if;
  if v_settings.capacity is not null then
    select * into v_settings from rowlease.queue_settings s
     where s.queue_name = p_queue_name for update;
    select coalesce(sum(d.scheduled + d.pending), 0) into v_waiting
      from rowlease.queue_depth d where d.queue_name = p_queue_name;
    if v_waiting + p_num_requests > v_settings.capacity then
      raise exception using errcode = 'RL005',
        message = format('queue "%s" is full: %s of %s places are taken, %s more do not fit',
                         p_queue_name, v_waiting, v_settings.capacity, p_num_requests),
        hint = 'wait for workers, or raise its capacity with rowlease.configure_queue';
    end if;
  end if;
  return v_settings;
end $$;
