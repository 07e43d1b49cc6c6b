-- staging_inbox: a view into which any program may INSERT the rows of a load that has keys, groups or due times.
-- params:   load_id, run_number (from begin_load), row_id, kind, priority, due_time, dedup_key,
--           group_key, payload, headers
-- why:      the rows of other producers must not be read. Microsoft's JDBC driver selects from the
--           view into which it copies rows. promote checks the rows and makes them requests.
create or alter view rowlease.StagingInbox as
select s.LoadId, s.RunNumber, s.RowId, s.Kind, s.Priority, s.DueTime, s.DedupKey, s.GroupKey,
       s.Payload, s.Headers
  from rowlease.Staging as s
 where 1 = 0;
