-- sweep_operations: drop operations 90 days after their last step.
-- params:   p_now datetime2(6), p_limit int, p_dropped bigint output
-- returns:  p_dropped -- how many were dropped
-- locks:    rows of requeued, cancellation and operation, exclusive, skipping locked ones
create or alter procedure rowlease_internal.sweep_operations
  @p_now datetime2(6), @p_limit int, @p_dropped bigint output
as
set nocount on;
set xact_abort on;
declare @old table (OperationId bigint not null primary key);
insert into @old (OperationId)
select top (@p_limit) o.OperationId
  from rowlease.Operation as o
    with (forceseek (operation_last (LastTime)), readpast, readcommittedlock)
 where o.LastTime < dateadd(day, -90, @p_now) order by o.LastTime;
delete r
  from @old as d
 inner join rowlease.Requeued as r with (index (requeued_operation), forceseek, rowlock, readpast)
         on r.OperationId = d.OperationId
option (loop join, force order, maxdop 1);
delete c
  from @old as d
 inner join rowlease.Cancellation as c with (index (cancellation_operation), forceseek, rowlock, readpast)
         on c.OperationId = d.OperationId
option (loop join, force order, maxdop 1);
delete o
  from @old as d
 inner join rowlease.Operation as o with (index (operation_pkey), forceseek, rowlock, readpast)
         on o.OperationId = d.OperationId
option (loop join, force order, maxdop 1);
set @p_dropped = @@rowcount;
