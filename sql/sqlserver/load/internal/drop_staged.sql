-- drop_staged: delete the staged rows of a run that is over, in steps.
-- params:   p_load_id nvarchar(400), p_run_number bigint
-- returns:  nothing
-- errors:   none
-- locks:    rows of staging of this run, exclusive, skipping locked ones; to the end of each step, or of
--           the caller's transaction
-- why:      each deleted row is a lock until the commit, and a load may have millions of rows. No
--           routine reads rows of a run that is over, so they need not go in one transaction.
--           maintain deletes the rows that a step skips, and those that are left if the connection is
--           lost.
create or alter procedure rowlease_internal.drop_staged @p_load_id nvarchar(400), @p_run_number bigint
as
set nocount on;
set xact_abort on;
declare @rows int = 4000;
while @rows = 4000
begin
  delete top (4000) s
    from rowlease.Staging as s with (index (staging_run), forceseek, readpast, rowlock)
   where s.RunNumber = @p_run_number and s.LoadId = @p_load_id
  option (maxdop 1);
  set @rows = @@rowcount;
end;
