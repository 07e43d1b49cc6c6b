-- num_stepped_over: count the index entries that scans of queue have read without finding a row.
-- params:   none
-- returns:  bigint -- the number grows within a transaction; use the difference between two calls
-- errors:   none
-- locks:    none
-- why:      PostgreSQL counts, for each index, the entries read and the visible rows found. The
--           difference is the number of entries of finished requests or of transactions that are
--           still open. With track_counts off it is always 0, and no floor comes into force. The same
--           holds while one of these indexes is missing: claims are slow then, but they go on until
--           rowlease migrate has created it again. to_regclass would look up a name at each call.
create or replace function rowlease_internal.num_stepped_over() returns bigint
language plpgsql
as $$
begin
  return pg_stat_get_xact_tuples_returned('rowlease.queue_pending'::regclass)
       - pg_stat_get_xact_tuples_fetched('rowlease.queue_pending'::regclass)
       + pg_stat_get_xact_tuples_returned('rowlease.queue_expiring'::regclass)
       - pg_stat_get_xact_tuples_fetched('rowlease.queue_expiring'::regclass)
       + pg_stat_get_xact_tuples_returned('rowlease.queue_scheduled'::regclass)
       - pg_stat_get_xact_tuples_fetched('rowlease.queue_scheduled'::regclass);
exception
  when undefined_table then
    return 0;
end $$;
