-- check_staged: refuse to promote a load whose rows have changed since they were counted.
-- params:   p_load_id text, p_expected_rows bigint, p_num_rows bigint (how many a statement has seen)
-- returns:  void
-- errors:   40001 the number of rows has changed
-- locks:    none
-- why:      each statement of promote sees rows that are committed when it begins. A task that
--           Spark has given up, or one of a dead driver, may commit rows between two of them; the
--           next call counts these as well.
create or replace function rowlease_internal.check_staged(
  p_load_id text, p_expected_rows bigint, p_num_rows bigint
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_num_rows <> p_expected_rows then
    raise exception using errcode = '40001',
      message = format('rows of load "%s" were written while it was promoted; nothing was enqueued, '
                       'promote it again', p_load_id);
  end if;
end $$;
