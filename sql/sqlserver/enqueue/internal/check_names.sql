-- check_names: refuse a payload that names an argument twice.
-- params:   p_payload nvarchar(max)
-- returns:  nothing
-- errors:   RL004 an argument is named twice
-- locks:    none
-- why:      a task gets one of the two values, and the other one is lost. To read the names costs as
--           much as a tenth of a load (decision 105). So it is called where requests come one by one,
--           and for one row of each part of a load: a program that writes payloads as text names an
--           argument twice in each of them.
create or alter procedure rowlease_internal.check_names @p_payload nvarchar(max)
as
set nocount on;
set xact_abort on;
declare @name nvarchar(4000), @says nvarchar(2048);
select top (1) @name = max(k.[key]) from openjson(@p_payload) as k
 group by k.[key] collate Latin1_General_100_BIN2 having count(*) > 1;
if @name is not null
begin
  set @says = concat(N'payload names the argument "', left(@name, 100),
                     N'" twice; give each argument one value');
  throw 51004, @says, 1;
end;
