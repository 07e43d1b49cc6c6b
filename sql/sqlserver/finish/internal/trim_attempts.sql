-- trim_attempts: keep only the newest ten attempts of each request.
-- params:   p_request_ids nvarchar(max)
-- returns:  nothing
create or alter procedure rowlease_internal.trim_attempts @p_request_ids nvarchar(max)
as
set nocount on;
set xact_abort on;
declare @old table (RequestId bigint not null, LockToken bigint not null,
                    primary key (RequestId, LockToken));
insert into @old (RequestId, LockToken)
select n.RequestId, n.LockToken
  from (select a.RequestId, a.LockToken,
               row_number() over (partition by a.RequestId order by a.LockToken desc) as place
          from rowlease.Attempt as a with (forceseek (attempt_pkey (RequestId)))
         where a.RequestId in (select cast(i.value as bigint) from openjson(@p_request_ids) as i)) as n
 where n.place > 10;
if @@rowcount > 0
  delete a from @old as o
   inner join rowlease.Attempt as a with (index (attempt_pkey), forceseek, rowlock)
           on a.RequestId = o.RequestId and a.LockToken = o.LockToken
  option (loop join, force order, maxdop 1);
