-- note_unknown: record how long no live worker has known the kinds of declined requests.
-- params:   p_now datetime2(6)
-- returns:  DelayMs (delay until the requests are due again) or Verdict (the reason if they are
--           dead letters) in the caller's table #kinds
-- errors:   none
-- locks:    rows of unknown_kind; the caller holds the lock of unknown kinds
-- why:      a live worker that lists no kinds counts as knowing every kind. If the last decline is
--           older than unknown_kind_seconds (at least a minute), the clock restarts, because no
--           worker may have tried since.
create or alter procedure rowlease_internal.note_unknown @p_now datetime2(6)
as
set nocount on;
set xact_abort on;
declare @found table (QueueName nvarchar(100) collate Latin1_General_100_BIN2 not null,
                      Kind nvarchar(200) collate Latin1_General_100_BIN2 not null,
                      Seconds int not null, IsKnown bit not null, UnknownMs bigint,
                      primary key (QueueName, Kind));
insert into @found (QueueName, Kind, Seconds, IsKnown)
select k.QueueName, k.Kind, coalesce(s.UnknownKindSeconds, 600),
       case when exists (
              select 1 from rowlease.Worker as w
               where w.HeartbeatTime > dateadd(second, -30, @p_now)
                 and k.QueueName in (select n.value collate Latin1_General_100_BIN2
                                       from openjson(w.QueueNames) as n)
                 and (w.Kinds is null
                      or k.Kind in (select n.value collate Latin1_General_100_BIN2
                                      from openjson(w.Kinds) as n)))
            then 1 else 0 end
  from #kinds as k left join rowlease.QueueSettings as s on s.QueueName = k.QueueName;
update u
   set UnknownSince = case when f.IsKnown = 1
                             or u.DeclinedTime < dateadd(second, case when f.Seconds < 60 then -60
                                                                      else -f.Seconds end, @p_now)
                           then @p_now else u.UnknownSince end,
       DeclinedTime = @p_now
  from rowlease.UnknownKind as u
  join @found as f on f.QueueName = u.QueueName and f.Kind = u.Kind;
insert into rowlease.UnknownKind (QueueName, Kind, UnknownSince, DeclinedTime)
select f.QueueName, f.Kind, @p_now, @p_now
  from @found as f
 where not exists (select 1 from rowlease.UnknownKind as u
                    where u.QueueName = f.QueueName and u.Kind = f.Kind);
update f set UnknownMs = datediff_big(microsecond, u.UnknownSince, @p_now) / 1000
  from @found as f
  join rowlease.UnknownKind as u on u.QueueName = f.QueueName and u.Kind = f.Kind;
update k
   set Verdict = case when f.IsKnown = 0 and f.UnknownMs >= cast(f.Seconds as bigint) * 1000
                      then concat(N'for ', f.Seconds, N' s no live worker of queue "', f.QueueName,
                                  N'" has known kind "', f.Kind, N'"') end,
       DelayMs = case when f.IsKnown = 1 then 2000 when f.UnknownMs < 4000 then 1000
                      when f.UnknownMs > 120000 then 30000 else f.UnknownMs / 4 end
  from #kinds as k
  join @found as f on f.QueueName = k.QueueName and f.Kind = k.Kind;
