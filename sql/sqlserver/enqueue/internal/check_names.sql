-- check_names: refuse a payload that names an argument twice.
-- params:   p_payload nvarchar(max)
-- returns:  nothing
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
