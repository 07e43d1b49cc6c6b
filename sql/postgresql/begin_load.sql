-- begin_load: open the ledger of a load before its rows are staged.
-- params:   p_load_id text, p_queue_name text, p_columns text (what its rows are made of; null: not
--           said)
-- returns:  outcome text -- 'ok' | 'repeat' (it is promoted: stage nothing), num_rows bigint,
--           num_enqueued bigint, num_duplicates bigint
-- errors:   RL001 bad argument, RL002 unknown queue, RL009 the load id was used for another queue or
--           for other columns
-- locks:    the load's row; rows of staging of this load
-- why:      what a run that died has staged is dropped, so a load is always of one run, whatever has
--           changed since. A promoted load that comes again with other columns is another load, and
--           saying so is better than to enqueue nothing of it.
create or replace function rowlease.begin_load(
  p_load_id text, p_queue_name text, p_columns text default null
) returns table (outcome text, num_rows bigint, num_enqueued bigint, num_duplicates bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now  timestamptz := rowlease.now();
  v_load rowlease.load;
begin
  if (length(p_load_id) between 1 and 100) is not true then
    raise exception using errcode = 'RL001', message = 'a load id has 1 to 100 characters';
  end if;
  perform rowlease.settings_of(p_queue_name);
  v_load := rowlease.take_load(p_load_id, p_queue_name, v_now);
  if v_load.status = 'Promoted' then
    if v_load.columns <> p_columns then
      raise exception using errcode = 'RL009',
        message = format('load "%s" was enqueued from other columns: %s, not %s; take another load id',
                         p_load_id, v_load.columns, p_columns);
    end if;
    return query select 'repeat'::text, v_load.num_rows, v_load.num_enqueued, v_load.num_duplicates;
    return;
  end if;
  delete from rowlease.staging s where s.load_id = p_load_id;
  update rowlease.load l
     set queue_name = p_queue_name, columns = p_columns, num_staged = 0, started_time = v_now,
         reported_time = v_now
   where l.load_id = p_load_id;
  return query select 'ok'::text, null::bigint, null::bigint, null::bigint;
end $$;
