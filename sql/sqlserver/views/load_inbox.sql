-- load_inbox: a view into which any program may INSERT the rows of a load.
-- params:   run_number (from begin_load), part (a number that no other transaction of the run uses),
--           priority, kind, payload, headers, due_time, dedup_key, group_key
-- errors:   as end_part
-- why:      a writer that can only append rows reaches the lane: Spark's JDBC writer, or any other. All
--           rows of a part are written in one transaction. promote makes them requests. A bulk copy
--           must fire triggers: rows that end_part has not seen do not count.
create or alter view rowlease.LoadInbox as
select r.RunNumber, r.Part, r.Priority, r.Kind, r.Payload, r.Headers, r.DueTime,
       r.DedupKey, r.GroupKey
  from rowlease.Lane as r
 where 1 = 0;
