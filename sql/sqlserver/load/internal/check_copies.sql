-- check_copies: refuse a load in which one row was written twice with different values.
-- params:   p_load_id nvarchar(400), p_run_number bigint
-- returns:  nothing
-- errors:   51012 a row was written twice and differs
-- why:      two tries of a Spark task that computed different rows under the same ids cannot be
--           distinguished, and a mixture of both would lose some rows and double others.
create or alter procedure rowlease_internal.check_copies @p_load_id nvarchar(400), @p_run_number bigint
as
set nocount on;
set xact_abort on;
declare @says nvarchar(2048);
if not exists (
  select 1
    from (select distinct s.RowId, s.Priority, s.DueTime,
                 s.Kind collate Latin1_General_100_BIN2 as Kind,
                 s.DedupKey collate Latin1_General_100_BIN2 as DedupKey,
                 s.GroupKey collate Latin1_General_100_BIN2 as GroupKey,
                 s.Payload collate Latin1_General_100_BIN2 as Payload,
                 s.Headers collate Latin1_General_100_BIN2 as Headers
            from rowlease.Staging as s with (forceseek (staging_run (RunNumber)))
           where s.RunNumber = @p_run_number and s.LoadId = @p_load_id) as d
   group by d.RowId having count(*) > 1)
  return;
set @says = concat(N'load "', @p_load_id, N'" has rows that were written twice and differ; ',
                   N'stage it again, in an order that is fixed');
throw 51012, @says, 1;
