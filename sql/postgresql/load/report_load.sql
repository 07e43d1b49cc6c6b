-- report_load: report that more rows of a load are being written.
-- params:   p_load_id text, p_run_number bigint, p_num_rows bigint (how many since the last time)
-- returns:  bigint -- how many in all; null: the load is promoted
-- errors:   RL001 bad argument, RL014 another run has taken the load over
-- locks:    the load's row
-- why:      uncommitted rows cannot be counted, so this is an estimate for people; promote counts. A
--           task that is retried reports its rows again. A load with reports is not dropped, and a
--           superseded run gets an error early.
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
    raise exception using errcode = 'RL001', message = 'a number of rows must be 0 or more';
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
