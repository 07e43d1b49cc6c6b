-- try_lock: take a named lock to the end of the transaction, if nobody else has it.
-- params:   p_name nvarchar(255), p_granted bit output
-- returns:  p_granted -- 0: somebody else has it
-- errors:   none
-- locks:    the application lock, without waiting
-- why:      whoever never waits can never be part of a deadlock.
create or alter procedure rowlease.try_lock @p_name nvarchar(255), @p_granted bit output
as
set nocount on;
set xact_abort on;
declare @granted int;
exec @granted = sys.sp_getapplock @Resource = @p_name, @LockMode = 'Exclusive',
                                  @LockOwner = 'Transaction', @LockTimeout = 0;
set @p_granted = case when @granted >= 0 then 1 else 0 end;
