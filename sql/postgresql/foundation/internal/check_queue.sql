-- check_queue: refuse a queue that does not exist, and return the settings of one that does.
-- params:   p_queue_name text
-- returns:  rowlease.queue_settings
-- errors:   RL002 unknown queue
-- locks:    none
-- why:      queues are created explicitly, so a misspelt name is an error everywhere. It is volatile:
--           a stable function has the snapshot of its caller, which is older than a wait for
--           delete_queue, and would still find the queue.
create or replace function rowlease_internal.check_queue(p_queue_name text) returns rowlease.queue_settings
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_settings rowlease.queue_settings;
begin
  select * into v_settings from rowlease.queue_settings s where s.queue_name = p_queue_name;
  if not found then
    raise exception using errcode = 'RL002',
      message = format('queue "%s" does not exist', p_queue_name),
      hint = format('create it with `rowlease queue create %s`, or in SQL with '
                    'rowlease.configure_queue', p_queue_name);
  end if;
  return v_settings;
end $$;
