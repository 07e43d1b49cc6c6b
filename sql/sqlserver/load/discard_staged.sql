-- discard_staged: delete the staged rows of a load, except the parts that count.
-- params:   p_load_id nvarchar(400), p_run_number bigint, p_kept_parts nvarchar(max) -- empty: drop all;
--           a row's part is its row_id divided by 2^30
-- returns:  bigint -- how many rows were dropped
-- errors:   RL014 another run has taken the load over; 51012 as take_lock
-- locks:    for each step: the load's lock; rows of staging of this load, skipping locked ones
-- why:      several tries of a Spark task may all have written; the driver knows which one counts. A
--           promoted load has no staged rows, or late ones that are never promoted, so it is not
--           touched. Each deleted row needs a lock, so a transaction deletes only 4,000 rows.
create or alter procedure rowlease.discard_staged
  @p_load_id nvarchar(400), @p_run_number bigint, @p_kept_parts nvarchar(max)
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @rows int = 4000, @dropped bigint = 0;
while @rows = 4000
begin
  begin transaction;
  exec rowlease_internal.take_load @p_load_id, @p_run_number;
  delete top (4000) s
    from rowlease.Staging as s with (index (staging_run), forceseek, readpast, rowlock)
   where s.RunNumber = @p_run_number and s.LoadId = @p_load_id
     and s.RowId / 1073741824 not in (select cast(k.value as bigint) from openjson(@p_kept_parts) as k)
  option (maxdop 1);
  set @rows = @@rowcount;
  set @dropped = @dropped + @rows;
  commit transaction;
end;
select @dropped as dropped;
