-- groups_of: list the groups of given requests.
-- params:   p_request_ids nvarchar(max)
-- returns:  queue_name nvarchar(100), group_key nvarchar(200) -- each group once; requests without
--           a group have no row
-- errors:   none
-- locks:    none
-- why:      a routine that finishes requests must know their groups before and after it finishes
--           them; see lock_groups.
create or alter function rowlease_internal.groups_of(@p_request_ids nvarchar(max)) returns table
as
return
  select distinct q.QueueName as queue_name, q.GroupKey as group_key
    from openjson(@p_request_ids) as i
    join rowlease.Queue as q with (forceseek (queue_pkey (RequestId)))
      on q.RequestId = cast(i.value as bigint)
   where q.GroupKey is not null;
