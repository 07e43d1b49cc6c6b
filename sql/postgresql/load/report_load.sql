-- report_load: report that more rows of a load are on their way, for people to see.
-- params:   p_load_id text, p_run_number bigint, p_num_rows bigint (how many since the last time)
-- returns:  bigint -- how many in all; null: the load is promoted
-- errors:   RL001 bad argument, RL014 another run has taken the load over
-- locks:    the load's row
-- why:      rows that are not committed nobody can count, and counting is what promote does; a task
--           that is tried again reports its rows again. A load that is reported on is not abandoned,
--           and a run that reports hears early that it was superseded.
create or replace function rowlease.report_load(
  p_load_id text, p_run_number bigint, p_num_rows bigint
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_load rowlease.load;
begin
  if (p_num_rows >= 0) is not true then
    raise exception using errcode = 'RL001', message = 'a number of rows is not negative';
  end if;
  v_load := rowlease_internal.take_load(p_load_id, p_run_number);
  if v_load.status = 'Promoted' then
    return null;
  end if;
  update rowlease.load l
     set num_staged = l.num_staged + p_num_rows, reported_time = rowlease.now()
   where l.load_id = p_load_id;
  return v_load.num_staged + p_num_rows;
end $$;
