-- promote: move a staged load into the queue, whole or not at all.
-- params:   p_load_id nvarchar(400), p_queue_name nvarchar(400), p_expected_rows bigint,
--           p_kind nvarchar(max) (for rows that name none)
-- returns:  outcome text -- 'ok' | 'repeat', num_rows bigint, num_enqueued bigint,
--           num_duplicates bigint (rows whose dedup key is live already, or came twice)
-- errors:   RL002 unknown queue, RL003 bad priority, RL004 bad payload, RL005 queue is full,
--           RL006 no kind, RL008 staged rows differ from the expected count, RL009 the load id was
--           used for another queue; 51011 a payload that is not JSON, 51012 as add_staged and
--           check_copies
-- locks:    the load's lock; the queue's admission lock if it has a capacity; the lock of all dedup
--           keys of the queue if the load has any; as add_staged
-- why:      however often a Spark task wrote its rows, each (load, row) becomes one request; the
--           load's row makes a second call answer with the first one's counts. What is deleted at
--           the end must be as much as was counted: a task that Spark has given up may write meanwhile.
create or alter procedure rowlease.promote
  @p_load_id nvarchar(400), @p_queue_name nvarchar(400), @p_expected_rows bigint,
  @p_kind nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6), @status varchar(10), @rows bigint, @enqueued bigint, @duplicates bigint;
declare @written bigint, @outcome varchar(10) = 'ok', @admitted bit, @says nvarchar(2048);
declare @kind nvarchar(max), @priority int, @payload nvarchar(max);
begin transaction;
exec rowlease.take_load @p_load_id, @p_queue_name, @now output;
select @status = l.Status, @rows = l.NumRows, @enqueued = l.NumEnqueued,
       @duplicates = l.NumDuplicates
  from rowlease.[Load] as l where l.LoadId = @p_load_id;
if @status = 'Promoted'
  set @outcome = 'repeat';
else
begin
  select @rows = count(distinct s.RowId), @written = count(*)
    from rowlease.Staging as s where s.LoadId = @p_load_id;
  if @rows <> @p_expected_rows or @p_expected_rows is null
  begin
    set @says = concat(N'load "', @p_load_id, N'" has ', @rows, N' staged rows where ',
                       @p_expected_rows, N' were expected; write it again');
    throw 51008, @says, 1;
  end;
  if @written > @rows
    exec rowlease.check_copies @p_load_id;
  exec rowlease.admit @p_queue_name, @p_expected_rows, 0, @now, @admitted output;
  select top (1) @kind = coalesce(s.Kind, @p_kind), @priority = s.Priority, @payload = s.Payload
    from rowlease.Staging as s
   where s.LoadId = @p_load_id
     and (coalesce(s.Kind, @p_kind, N'') = N'' or len(coalesce(s.Kind, @p_kind)) > 200
          or s.Priority < 0 or rowlease.num_bytes(s.Payload) > 1048576);
  if @@rowcount > 0
    exec rowlease.check_request @kind, @priority, @payload, null;
  if exists (select 1 from rowlease.Staging as s
              where s.LoadId = @p_load_id and rowlease.is_json(s.Payload) = 0)
  begin
    set @says = concat(N'load "', @p_load_id,
                       N'" has a payload that is not JSON; nothing was enqueued');
    throw 51011, @says, 1;
  end;
  exec rowlease.add_staged @p_queue_name, @now, @p_load_id, @p_kind, @p_expected_rows,
                           @enqueued output;
  set @duplicates = @rows - @enqueued;
  update rowlease.[Load]
     set QueueName = @p_queue_name, Status = 'Promoted', PromotedTime = rowlease.now(), NumRows = @rows,
         NumEnqueued = @enqueued, NumDuplicates = @duplicates
   where LoadId = @p_load_id;
end;
delete from rowlease.Staging where LoadId = @p_load_id;
if @outcome = 'ok' and rowcount_big() <> @written
begin
  set @says = concat(N'rows of load "', @p_load_id, N'" were written while it was promoted; nothing ',
                     N'was enqueued, promote it again');
  throw 51012, @says, 1;
end;
commit transaction;
select @outcome as outcome, @rows as num_rows, @enqueued as num_enqueued, @duplicates as num_duplicates;
