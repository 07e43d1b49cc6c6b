-- discard_load: end the run of a load that will not be promoted, so that its staged rows are deleted.
-- params:   p_load_id nvarchar(400), p_dry_run bit (1: change nothing; only raise errors and count),
--           p_actor nvarchar(max) (the operator's name)
-- errors:   RL014 the load is promoted, its run is over, or there is no such load; 51012 as take_lock
-- locks:    the load's lock
create or alter procedure rowlease.discard_load
  @p_load_id nvarchar(400), @p_dry_run bit = 0, @p_actor nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @lock nvarchar(255) = rowlease_internal.lock_name(N'load', N'', @p_load_id), @says nvarchar(2048);
declare @status varchar(10), @staged bigint;
begin transaction;
exec rowlease_internal.take_lock @lock;
select @status = l.Status, @staged = l.NumStaged from rowlease.[Load] as l where l.LoadId = @p_load_id;
if @status is null
  set @says = concat(N'there is no load "', @p_load_id, N'"; list the loads');
else if @status = 'Promoted'
  set @says = concat(N'load "', @p_load_id, N'" is promoted, so its rows are requests; cancel the requests ',
                     N'with the filter load:', @p_load_id);
else if @status <> 'Staging'
  set @says = concat(N'the run of load "', @p_load_id, N'" was ended; nothing is left to discard');
if @says is not null
  throw 51014, @says, 1;
if @p_dry_run = 0
begin
  update rowlease.[Load] set Status = 'Ended', NumStaged = 0 where LoadId = @p_load_id;
  exec rowlease_internal.note_change N'discard_load', N'load_id', @p_load_id, null, @p_actor;
end;
commit transaction;
select @staged as discard_load;
