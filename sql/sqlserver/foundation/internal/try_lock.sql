-- try_lock: take an application lock until the transaction ends, if it is free.
-- params:   p_name nvarchar(255), p_granted bit output, p_wait_ms int
-- returns:  p_granted -- 0: another session has held the lock for p_wait_ms
-- errors:   51012 the lock cannot be granted to this call: the call was cancelled, or is not allowed
-- locks:    the application lock, without waiting unless p_wait_ms is given
-- why:      a caller that never waits cannot be part of a deadlock. take_lock explains which role
--           owns the lock.
create or alter procedure rowlease_internal.try_lock
  @p_name nvarchar(255), @p_granted bit output, @p_wait_ms int = 0
as
set nocount on;
set xact_abort on;
declare @granted int;
exec @granted = sys.sp_getapplock @Resource = @p_name, @LockMode = 'Exclusive',
                                  @LockOwner = 'Transaction', @LockTimeout = @p_wait_ms,
                                  @DbPrincipal = N'rowlease_lock';
set @p_granted = case when @granted >= 0 then 1 else 0 end;
if @granted >= -1
  return;
declare @says nvarchar(2048) = concat(N'the lock ', @p_name, N' cannot be taken (sp_getapplock: ', @granted,
                                      N'); nothing was done, call again');
throw 51012, @says, 1;
