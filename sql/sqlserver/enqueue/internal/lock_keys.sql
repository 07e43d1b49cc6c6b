-- lock_keys: lock dedup keys until the transaction ends.
-- params:   p_queue_name nvarchar(400), p_dedup_keys nvarchar(max) (null: all keys of the queue)
-- returns:  nothing
-- errors:   51012 as take_lock
-- locks:    the queue's lock for keys, shared; a lock for each key, exclusive, in the order of names.
--           For all keys: the queue's lock, exclusive
-- why:      a call that finds no live request with its key may add one; without the lock, two
--           concurrent calls could both find none. The unique index would also prevent duplicates,
--           but with an error.
create or alter procedure rowlease_internal.lock_keys @p_queue_name nvarchar(400), @p_dedup_keys nvarchar(max)
as
set nocount on;
set xact_abort on;
declare @name nvarchar(255) = rowlease_internal.lock_name(N'keys', @p_queue_name, N'');
if @p_dedup_keys is null
begin
  exec rowlease_internal.take_lock @name;
  return;
end;
declare @names table (Name nvarchar(255) not null primary key);
insert into @names (Name)
select distinct rowlease_internal.lock_name(N'key', @p_queue_name, k.value)
  from openjson(@p_dedup_keys) as k where k.value is not null;
declare @left int = @@rowcount;
if @left > 0
  exec rowlease_internal.take_lock @name, 'Shared';
set @name = N'';
while @left > 0
begin
  set @name = (select min(n.Name) from @names as n where n.Name > @name);
  exec rowlease_internal.take_lock @name;
  set @left = @left - 1;
end;
