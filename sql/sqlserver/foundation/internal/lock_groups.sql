-- lock_groups: lock groups whose requests are about to be finished.
-- params:   p_groups nvarchar(max) -- [{"q": queue, "g": group key}, ...]; null: none
-- returns:  nothing
-- errors:   51012 as take_lock
-- locks:    a lock for each group, exclusive, in the order of names, to the end of the transaction
-- why:      a claim that finds a request behind another of its group blocks it (GroupBlocked), and
--           the routine that finishes the other request unblocks it (unblock_groups). Both hold
--           the group's lock, so neither can miss what the other has written.
create or alter procedure rowlease_internal.lock_groups @p_groups nvarchar(max)
as
set nocount on;
set xact_abort on;
if @p_groups is null
  return;
declare @name nvarchar(255) = N'';
declare @names table (Name nvarchar(255) not null primary key);
insert into @names (Name)
select distinct rowlease_internal.lock_name(N'g', g.q, g.g)
  from openjson(@p_groups) with (q nvarchar(100), g nvarchar(200)) as g;
declare @left int = @@rowcount;
while @left > 0
begin
  set @name = (select min(n.Name) from @names as n where n.Name > @name);
  exec rowlease_internal.take_lock @name;
  set @left = @left - 1;
end;
