-- report_load: say that more rows of a load are on their way, for people to see.
-- params:   p_load_id text, p_num_rows bigint (how many since the last time)
-- returns:  bigint -- how many in all; null: the load is promoted
-- errors:   RL001 bad argument
-- locks:    the load's row
-- why:      rows that are not committed nobody can count, and counting is what promote does; a task
--           that is tried again reports its rows again. A load that is reported on is not abandoned.
create or replace function rowlease.report_load(p_load_id text, p_num_rows bigint) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now    timestamptz := rowlease.now();
  v_staged bigint;
begin
  if (length(p_load_id) between 1 and 100 and p_num_rows >= 0) is not true then
    raise exception using errcode = 'RL001',
      message = 'a load id has 1 to 100 characters, and a number of rows is not negative';
  end if;
  insert into rowlease.load as l (load_id, status, num_rows, num_staged, started_time, reported_time)
  values (p_load_id, 'Staging', 0, p_num_rows, v_now, v_now)
  on conflict (load_id) do update
     set num_staged = l.num_staged + p_num_rows, reported_time = v_now
   where l.status = 'Staging'
  returning num_staged into v_staged;
  return v_staged;
end $$;
