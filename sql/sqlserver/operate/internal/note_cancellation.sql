-- note_cancellation: record which operation has cancelled these requests.
-- params:   p_request_ids nvarchar(max), p_operation_id bigint, p_now datetime2(6)
-- returns:  nothing
-- errors:   none
-- locks:    rows of cancellation, exclusive; the caller has locked the requests
-- why:      a request that was cancelled while it ran may be cancelled again, to have its task killed.
create or alter procedure rowlease_internal.note_cancellation
  @p_request_ids nvarchar(max), @p_operation_id bigint, @p_now datetime2(6)
as
set nocount on;
set xact_abort on;
update c
   set OperationId = o.OperationId, AskedTime = @p_now, AskedBy = coalesce(o.Actor, o.Login),
       Kills = case when c.Kills = 1 or json_value(o.Arguments, '$.kill') = 'true' then 1 else 0 end
  from openjson(@p_request_ids) as i
 inner join rowlease.Cancellation as c with (index (cancellation_pkey), forceseek, rowlock)
         on c.RequestId = cast(i.value as bigint)
 inner join rowlease.Operation as o with (index (operation_pkey), forceseek)
         on o.OperationId = @p_operation_id
option (loop join, force order, maxdop 1);
insert into rowlease.Cancellation (RequestId, OperationId, AskedTime, AskedBy, Kills)
select cast(i.value as bigint), o.OperationId, @p_now, coalesce(o.Actor, o.Login),
       case when json_value(o.Arguments, '$.kill') = 'true' then 1 else 0 end
  from openjson(@p_request_ids) as i
  join rowlease.Operation as o with (forceseek (operation_pkey (OperationId)))
    on o.OperationId = @p_operation_id
 where not exists (select 1 from rowlease.Cancellation as c with (forceseek (cancellation_pkey (RequestId)))
                    where c.RequestId = cast(i.value as bigint));
