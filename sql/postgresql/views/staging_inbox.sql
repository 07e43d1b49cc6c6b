-- staging_inbox: a view into which any program may INSERT the rows of a load that has keys, groups or due times.
-- params:   load_id, run_number (from begin_load), row_id, kind, priority, due_time, dedup_key,
--           group_key, payload, headers
-- returns:  no rows: the view can be written to, but not read; producers may select from it, so
--           that a JDBC writer can inspect its columns
-- errors:   none
-- locks:    none
-- why:      the rows of other producers must not be read. promote checks the rows and makes them
--           requests.
create or replace view rowlease.staging_inbox as
select s.load_id, s.run_number, s.row_id, s.kind, s.priority, s.due_time, s.dedup_key, s.group_key,
       s.payload, s.headers
  from rowlease.staging s
 where false;
