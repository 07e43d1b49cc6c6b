-- list_loads: list the loads, the newest first.
-- params:   p_limit int
create or alter procedure rowlease.list_loads @p_limit int = 100
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
select top (@p_limit)
       l.LoadId as load_id, l.QueueName as queue_name, l.Status as status, l.RunBy as run_by,
       l.NumRows as num_rows, l.NumStaged as num_staged, l.NumEnqueued as num_enqueued,
       l.NumDuplicates as num_duplicates, l.NumClamped as num_clamped,
       cast(l.RowsPerSecond as bigint) as rows_per_second, l.StartedTime as started_time,
       l.ReportedTime as reported_time, l.PromotedTime as promoted_time,
       l.SilentSeconds as silent_seconds, l.RunNumber as run_number
  from rowlease.Loads as l
 order by l.StartedTime desc, l.LoadId;
