-- report_load: say that more rows of a load are on their way, for people to see.
-- params:   p_load_id nvarchar(400), p_num_rows bigint (how many since the last time)
-- returns:  bigint -- how many in all; null: the load is promoted
-- errors:   RL001 bad argument
-- locks:    the load's row
-- why:      rows that are not committed nobody can count, and counting is what promote does; a task
--           that is tried again reports its rows again. A load that is reported on is not abandoned.
create or alter procedure rowlease.report_load @p_load_id nvarchar(400), @p_num_rows bigint
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6) = rowlease.now(), @staged bigint;
if @p_load_id is null or len(@p_load_id) not between 1 and 100 or @p_num_rows is null or @p_num_rows < 0
  throw 51001, N'a load id has 1 to 100 characters, and a number of rows is not negative', 1;
begin transaction;
insert into rowlease.[Load] (LoadId, Status, NumRows, StartedTime, ReportedTime)
select @p_load_id, 'Staging', 0, @now, @now
 where not exists (select 1 from rowlease.[Load] as l with (updlock, holdlock)
                    where l.LoadId = @p_load_id);
update rowlease.[Load]
   set NumStaged = NumStaged + @p_num_rows, ReportedTime = @now
 where LoadId = @p_load_id and Status = 'Staging';
set @staged = (select l.NumStaged from rowlease.[Load] as l
                where l.LoadId = @p_load_id and l.Status = 'Staging');
commit transaction;
select @staged as num_staged;
