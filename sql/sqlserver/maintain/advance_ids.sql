-- advance_ids: advance the sequences that would hand out ids again.
-- params:   none
-- errors:   51012 the sequence is behind, and the user may not change it
-- locks:    if the sequence is behind: the sequence, against all use
-- why:      a database that was filled by a copy of rows has a new sequence. Identity columns follow the
--           ids that are inserted. The largest id is read before the next one is taken, so that ids which
--           other sessions take meanwhile are no reason. Ids of requests that were dropped are not known
--           any more, so a million is skipped; that also keeps the sequence ahead of calls that take an
--           id meanwhile. Only the owner may change a sequence: dynamic SQL, because `restart with` takes
--           no variable, and it runs with the rights of the caller.
create or alter procedure rowlease.advance_ids
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @next bigint, @statement nvarchar(200), @says nvarchar(2048);
declare @largest bigint = (
  select max(i.Id)
    from (select max(q.RequestId) as Id
            from rowlease.Queue as q with (forceseek (queue_pkey (RequestId)))
           where q.RequestId > 0 and q.RequestId < 4611686018427387904
          union all
          select max(h.RequestId)
            from rowlease.QueueHistory as h with (forceseek (queue_history_request (RequestId)))
           where h.RequestId > 0 and h.RequestId < 4611686018427387904
          union all
          select max(p.LastId) from rowlease.LanePart as p where p.LastId < 4611686018427387904) as i);
select @next = next value for rowlease.RequestIds;
if @largest >= @next
begin
  set @statement = concat(N'alter sequence rowlease.RequestIds restart with ', @largest + 1000000);
  if coalesce(has_perms_by_name(N'rowlease.RequestIds', N'OBJECT', N'ALTER'), 0) = 0
  begin
    set @says = concat(N'the sequence rowlease.RequestIds would hand out ids again (the next is ', @next,
                       N', the largest ', @largest, N'); run `rowlease migrate`, or as the owner: ',
                       @statement);
    throw 51012, @says, 1;
  end;
  exec (@statement);
end;
select N'rowlease.RequestIds' as sequence_name, @next as was, @largest + 1000000 as next_id
 where @largest >= @next;
