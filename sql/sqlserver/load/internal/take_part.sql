-- take_part: lock a part of a run for the transaction that writes it, if the run may write.
-- params:   p_run_number bigint, p_part bigint, p_counts bit output
-- returns:  p_counts -- 0: another transaction has written this part
-- errors:   RL014 another run has taken the load over, or the load is promoted; 51012 as take_lock and
--           try_lock
-- locks:    the run's lock for writers, shared; the part's lock, exclusive, after at most ten minutes of
--           waiting; both to the end of the transaction. The part's lock is released if the part is written
-- why:      promote takes the lock for writers exclusively. So rows are committed either before the load
--           is promoted, with their count, or not at all. A transaction that holds the part's lock has
--           written rows of it before. An attempt waits for another one of its task as long as that
--           writes: if that fails, this one counts.
create or alter procedure rowlease_internal.take_part
  @p_run_number bigint, @p_part bigint, @p_counts bit output
as
set nocount on;
set xact_abort on;
declare @writers nvarchar(255) = concat(N'rowlease:write:', @p_run_number), @says nvarchar(2048);
declare @lock nvarchar(255) = concat(N'rowlease:part:', @p_run_number, N':', @p_part), @granted bit;
set @p_counts = 1;
exec rowlease_internal.take_lock @writers, 'Shared';
if not exists (select 1 from rowlease.[Load] as l with (forceseek (load_run (RunNumber)))
                where l.RunNumber = @p_run_number and l.RunNumber > 0 and l.Status = 'Staging')
begin
  set @says = concat(N'run ', @p_run_number, N' of a load is over: the load is promoted, or a later run ',
                     N'has taken it over, or its job failed or was cancelled; rows that this run writes now do not count');
  throw 51014, @says, 1;
end;
if applock_mode(N'rowlease_lock', @lock, 'Transaction') <> 'NoLock'
  return;
exec rowlease_internal.try_lock @lock, @granted output, 600000;
if @granted = 0
begin
  set @says = concat(N'part ', @p_part, N' of run ', @p_run_number, N' of a load is being written by another ',
                     N'transaction; nothing was done, call again');
  throw 51012, @says, 1;
end;
if exists (select 1 from rowlease.LanePart as p with (forceseek (lane_part_of_run (RunNumber, Part)))
            where p.RunNumber = @p_run_number and p.Part = @p_part)
begin
  set @p_counts = 0;
  exec sys.sp_releaseapplock @Resource = @lock, @LockOwner = 'Transaction',
                             @DbPrincipal = N'rowlease_lock';
end;
