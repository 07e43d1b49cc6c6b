-- revive_found: make dead letters wait again.
-- params:   none
-- returns:  the outcomes in the caller's table #touched
-- errors:   as requeue
-- locks:    as requeue
-- why:      requeue answers with rows for its caller, which are kept in a table here.
create or alter procedure rowlease_internal.revive_found
as
set nocount on;
set xact_abort on;
declare @ids nvarchar(max);
declare @answers table (RequestId bigint not null, Outcome varchar(20) not null);
set @ids = (select N'[' + string_agg(cast(t.RequestId as nvarchar(max)), N',') + N']' from #touched as t);
if @ids is null
  return;
insert into @answers (RequestId, Outcome) exec rowlease.requeue @ids;
update #touched
   set Outcome = (select max(a.Outcome) from @answers as a where a.RequestId = #touched.RequestId);
