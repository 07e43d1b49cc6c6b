-- discard_staged: delete the staged rows of a load, except the parts that count; or end its run.
-- params:   p_load_id nvarchar(400), p_run_number bigint, p_kept_parts nvarchar(max) (null: none, and
--           the run ends, so that tasks which still write are refused) -- a row's part is its row_id
--           divided by 2^30
-- errors:   RL014 the run is over, as take_load; 51012 as take_lock
-- locks:    for each step: the load's lock; rows of staging and lane of this load, skipping locked ones
-- why:      several tries of a Spark task may all have written; the driver knows which one counts. If
--           its job has failed or was cancelled, none counts, and the run ends: Spark lets tasks that
--           it has killed write to their end. The rows of a promoted load in the lane are requests, so
--           it is not touched. Each deleted row needs a lock, so a transaction deletes only 4,000 rows.
create or alter procedure rowlease.discard_staged
  @p_load_id nvarchar(400), @p_run_number bigint, @p_kept_parts nvarchar(max)
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @rows int = 4000, @dropped bigint = 0;
declare @kept table (Part bigint not null primary key);
insert into @kept (Part) select distinct cast(k.value as bigint) from openjson(@p_kept_parts) as k;
if @p_kept_parts is null
begin
  begin transaction;
  exec rowlease_internal.take_load @p_load_id, @p_run_number;
  update rowlease.[Load] set Status = 'Ended', NumStaged = 0
   where LoadId = @p_load_id and Status = 'Staging';
  commit transaction;
end;
while @rows = 4000
begin
  begin transaction;
  if @p_kept_parts is not null
    exec rowlease_internal.take_load @p_load_id, @p_run_number;
  delete top (4000) s
    from rowlease.Staging as s with (index (staging_run), forceseek, readpast, rowlock)
   where s.RunNumber = @p_run_number and s.LoadId = @p_load_id
     and s.RowId / 1073741824 not in (select k.Part from @kept as k)
  option (maxdop 1);
  set @rows = @@rowcount;
  set @dropped = @dropped + @rows;
  commit transaction;
end;
set @rows = 4000;
while @rows = 4000
begin
  begin transaction;
  if @p_kept_parts is not null
    exec rowlease_internal.take_load @p_load_id, @p_run_number;
  delete p
    from rowlease.LanePart as p with (index (lane_part_of_run), forceseek, readpast, rowlock)
   where p.RunNumber = @p_run_number and p.Part not in (select k.Part from @kept as k)
     and exists (select 1 from rowlease.[Load] as l
                  where l.LoadId = @p_load_id and l.Status <> 'Promoted')
  option (maxdop 1);
  delete top (4000) r
    from rowlease.Lane as r with (index (lane_pkey), forceseek, readpast, rowlock)
   where r.RunNumber = @p_run_number and r.Part not in (select k.Part from @kept as k)
     and exists (select 1 from rowlease.[Load] as l
                  where l.LoadId = @p_load_id and l.Status <> 'Promoted')
  option (maxdop 1);
  set @rows = @@rowcount;
  set @dropped = @dropped + @rows;
  commit transaction;
end;
select @dropped as dropped;
