-- lock_groups: keep claims away from groups of which requests are about to be finished.
-- params:   p_request_ids nvarchar(max), p_groups nvarchar(max) output
-- returns:  p_groups -- [{"q": queue, "g": group key}, ...]; null if there are none
-- errors:   51012 not had in time
-- locks:    a lock for each group, exclusive, in the order of names, to the end of the transaction
-- why:      a claim that finds a request behind another of its group sets it aside (GroupBlocked),
--           and whoever finishes the other one lets it go on (unblock_groups). Both hold the group's
--           lock, so neither can miss what the other does.
create or alter procedure rowlease.lock_groups
  @p_request_ids nvarchar(max), @p_groups nvarchar(max) output
as
set nocount on;
set xact_abort on;
declare @name nvarchar(255) = N'';
declare @names table (Name nvarchar(255) not null primary key);
set @p_groups = (select g.queue_name as q, g.group_key as g
                   from rowlease.groups_of(@p_request_ids) as g for json path);
insert into @names (Name)
select distinct rowlease.lock_name(N'g', g.queue_name, g.group_key)
  from rowlease.groups_of(@p_request_ids) as g;
declare @left int = @@rowcount;
while @left > 0
begin
  set @name = (select min(n.Name) from @names as n where n.Name > @name);
  exec rowlease.take_lock @name;
  set @left = @left - 1;
end;
