-- take_load: lock the row of a load, which is made if it is not there.
-- params:   p_load_id text, p_queue_name text, p_now timestamptz
-- returns:  rowlease.load
-- errors:   RL009 the load id was used for another queue
-- locks:    the load's row
-- why:      begin_load and promote start with it: calls for one load come one after the other.
create or replace function rowlease.take_load(
  p_load_id text, p_queue_name text, p_now timestamptz
) returns rowlease.load
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_load rowlease.load;
begin
  insert into rowlease.load (load_id, queue_name, status, num_rows, started_time, reported_time)
  values (p_load_id, p_queue_name, 'Staging', 0, p_now, p_now) on conflict do nothing;
  select * into v_load from rowlease.load l where l.load_id = p_load_id for update;
  if v_load.queue_name <> p_queue_name then
    raise exception using errcode = 'RL009',
      message = format('load "%s" belongs to queue "%s", not to "%s"; take another load id',
                       p_load_id, v_load.queue_name, p_queue_name);
  end if;
  return v_load;
end $$;
