-- note_failure: note that a step of the housekeeping has failed.
-- params:   p_what nvarchar(30), p_queue_name nvarchar(400) (null: the step is for all queues), p_error
--           nvarchar(4000), p_now datetime2(6)
-- returns:  nothing
-- errors:   none
-- locks:    the lock of maintain, without waiting; a row of MaintainFailure
-- why:      the transaction of the step is rolled back, so this one is its own.
create or alter procedure rowlease_internal.note_failure
  @p_what nvarchar(30), @p_queue_name nvarchar(400), @p_error nvarchar(4000), @p_now datetime2(6)
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @granted bit, @queue nvarchar(100) = coalesce(@p_queue_name, N'');
begin transaction;
exec rowlease_internal.try_lock N'rowlease:maintain', @granted output;
if @granted = 1
begin
  update rowlease.MaintainFailure set Error = @p_error where What = @p_what and QueueName = @queue;
  if @@rowcount = 0
    insert into rowlease.MaintainFailure (What, QueueName, Error, FailedSince)
    values (@p_what, @queue, @p_error, @p_now);
end;
commit transaction;
