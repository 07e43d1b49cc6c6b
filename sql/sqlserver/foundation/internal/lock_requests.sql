-- lock_requests: lock requests, so that no claim takes them.
-- params:   p_request_ids nvarchar(max)
-- returns:  nothing
-- errors:   51012 as take_lock
-- locks:    a lock for each request, exclusive, in request order, to the end of the transaction
-- why:      a claim takes the same locks without waiting, and skips requests whose locks are not
--           granted.
create or alter procedure rowlease_internal.lock_requests @p_request_ids nvarchar(max)
as
set nocount on;
set xact_abort on;
declare @id bigint = -9223372036854775808, @name nvarchar(255);
declare @ids table (RequestId bigint not null primary key);
insert into @ids (RequestId)
select distinct cast(i.value as bigint) from openjson(@p_request_ids) as i where i.value is not null;
declare @left int = @@rowcount;
while @left > 0
begin
  set @id = (select min(i.RequestId) from @ids as i where i.RequestId > @id);
  set @name = concat(N'rowlease:r:', @id);
  exec rowlease_internal.take_lock @name;
  set @left = @left - 1;
end;
