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
declare @names table (Place int identity primary key, Name nvarchar(255) not null);
insert into @names (Name)
select n.Name
  from (select distinct rowlease_internal.lock_name(N'key', @p_queue_name, k.value) as Name
          from openjson(@p_dedup_keys) as k where k.value is not null) as n
 order by n.Name;
declare @left int = @@rowcount;
if @left > 0
  exec rowlease_internal.take_lock @name, 'Shared';
while @left > 0
begin
  set @name = (select top (1) n.Name from @names as n order by n.Place);
  exec rowlease_internal.take_lock @name;
  delete from @names where Name = @name;
  set @left = @left - 1;
end;
