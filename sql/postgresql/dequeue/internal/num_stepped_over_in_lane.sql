-- num_stepped_over_in_lane: count the index entries that scans of lane have read without finding a row.
-- params:   none
-- returns:  bigint -- it grows within a transaction; take the difference of two calls
-- errors:   none
-- locks:    none
-- why:      as num_stepped_over. Each part of a load needs its own scan, which costs about as much as
--           50 entries. A load may have many small parts, and each claim also scans the parts that
--           are used up.
create or replace function rowlease_internal.num_stepped_over_in_lane() returns bigint
language sql volatile
as $$
  select pg_stat_get_xact_tuples_returned('rowlease.lane_pkey'::regclass)
       - pg_stat_get_xact_tuples_fetched('rowlease.lane_pkey'::regclass)
       + 50 * pg_stat_get_xact_numscans('rowlease.lane_pkey'::regclass)
$$;
