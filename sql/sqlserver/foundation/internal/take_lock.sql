-- take_lock: take an application lock until the transaction ends; wait for it.
-- params:   p_name nvarchar(255), p_mode varchar(10)
-- returns:  nothing
-- errors:   51012 the lock was not granted: 10 s or a shorter lock_timeout have passed, or there was
--           a deadlock
-- locks:    the application lock
-- why:      an application lock can protect things that have no row: a queue's gate, or a key that
--           does not exist yet. Only callers that hold no lock that a claim needs may wait here;
--           claims use try_lock. A caller's own connection may have no lock_timeout. The lock belongs to the role rowlease_lock: if a user outside
--           rowlease's roles takes a lock of the same name, that is a different lock.
create or alter procedure rowlease_internal.take_lock @p_name nvarchar(255), @p_mode varchar(10) = 'Exclusive'
as
set nocount on;
set xact_abort on;
declare @granted int, @timeout int = case when @@lock_timeout between 0 and 10000 then @@lock_timeout
                                          else 10000 end;
exec @granted = sys.sp_getapplock @Resource = @p_name, @LockMode = @p_mode,
                                  @LockOwner = 'Transaction', @LockTimeout = @timeout,
                                  @DbPrincipal = N'rowlease_lock';
if @granted >= 0
  return;
declare @says nvarchar(2048) = concat(N'the lock ', @p_name, N' was not granted (', @granted,
                                      N'); nothing was done, call again');
throw 51012, @says, 1;
