-- load_inbox: a view into which any program may INSERT the rows of a load.
-- params:   run_number (from begin_load), part (a number that no other transaction of the run uses),
--           ends_part (true in one row of the part), priority, kind, payload, headers, due_time,
--           dedup_key, group_key
-- returns:  no rows: the view can be written to, but not read; producers may select from it, so
--           that a JDBC writer can inspect its columns
-- errors:   as end_part, at the commit; 23514 a priority below 0 or above 255, no kind, a payload over
--           1 MiB, that is no object or holds half of a surrogate pair, headers that are no object of
--           strings or over 8 KiB, a kind or key that ends in a blank, a due time out of range; 22P02 a payload or headers that are not JSON; 22001 a long kind or key
-- locks:    as end_part
-- why:      through this view, a program that can only append rows writes to the lane, such as
--           Spark's JDBC writer. All rows of a part are written in one transaction, and one of them is
--           marked; promote makes them requests. Other rows never become requests, and are deleted.
create or replace view rowlease.load_inbox as
select r.run_number, r.part, r.ends_part, r.priority, r.kind, r.payload, r.headers, r.due_time,
       r.dedup_key, r.group_key
  from rowlease.lane r
 where false;
