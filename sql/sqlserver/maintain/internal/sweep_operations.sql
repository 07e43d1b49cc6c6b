-- sweep_operations: drop operations 90 days after their last step.
-- params:   p_now datetime2(6), p_limit int, p_dropped bigint output
-- returns:  p_dropped -- how many were dropped
-- errors:   none
-- locks:    rows of operation, exclusive, skipping locked ones; rows of requeued
-- why:      90 days answer most questions about who did what; copy the rows to keep them for longer.
create or alter procedure rowlease_internal.sweep_operations
  @p_now datetime2(6), @p_limit int, @p_dropped bigint output
as
set nocount on;
set xact_abort on;
declare @old table (OperationId bigint not null primary key);
insert into @old (OperationId)
select top (@p_limit) o.OperationId
  from rowlease.Operation as o with (readpast, readcommittedlock)
 where o.LastTime < dateadd(day, -90, @p_now) order by o.LastTime;
delete from rowlease.Requeued where OperationId in (select d.OperationId from @old as d);
delete from rowlease.Operation with (rowlock)
 where OperationId in (select d.OperationId from @old as d);
set @p_dropped = @@rowcount;
