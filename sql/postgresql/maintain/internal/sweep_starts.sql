-- sweep_starts: delete starts that have left the period of their rate.
-- params:   p_now timestamptz, p_limit integer
-- returns:  bigint -- how many
-- errors:   none
-- locks:    rows of rate_start, exclusive, skipping locked ones
-- why:      a step of maintain. A claim reads only starts of its period, but it may have read the clock
--           before its queue's gate was free, so a start is kept 10 s longer.
create or replace function rowlease_internal.sweep_starts(p_now timestamptz, p_limit integer) returns bigint
language sql
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  with gone as (
    delete from rowlease.rate_start r
     where r.ctid = any(array(select o.ctid from rowlease.rate_start o
                               where o.expires_time <= p_now - interval '10 seconds'
                               order by o.expires_time limit p_limit for update skip locked))
    returning 1)
  select count(*) from gone;
$$;
