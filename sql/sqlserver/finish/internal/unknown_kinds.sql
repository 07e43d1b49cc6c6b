-- unknown_kinds: find out for how long no live worker has known the kinds of declined requests.
-- params:   p_request_ids nvarchar(max), p_now datetime2(6)
-- returns:  queue_name nvarchar(100), kind nvarchar(200), unknown_since datetime2(6), delay_ms bigint
--           (delay until the requests are due again), verdict nvarchar(1000) (the reason if they are
--           dead letters, or null) -- each kind once
-- errors:   none
-- locks:    none; the caller holds the lock of unknown kinds
-- why:      a live worker that lists no kinds counts as knowing every kind. If the last decline is
--           older than unknown_kind_seconds (at least a minute), the clock restarts, because no
--           worker may have tried since.
create or alter function rowlease_internal.unknown_kinds(@p_request_ids nvarchar(max), @p_now datetime2(6))
returns table
as
return
  select f.QueueName as queue_name, f.Kind as kind, f.UnknownSince as unknown_since,
         cast(case when f.IsKnown = 1 then 30000 when f.UnknownMs < 4000 then 1000
                   when f.UnknownMs > 120000 then 30000 else f.UnknownMs / 4 end as bigint) as delay_ms,
         case when f.IsKnown = 0 and f.UnknownMs >= cast(f.Seconds as bigint) * 1000
              then concat(N'for ', f.Seconds, N' s no live worker of queue "', f.QueueName,
                          N'" has known kind "', f.Kind, N'"') end as verdict
    from (
      select s.QueueName, s.Kind, s.Seconds, s.IsKnown, s.UnknownSince,
             datediff_big(microsecond, s.UnknownSince, @p_now) / 1000 as UnknownMs
        from (
          select k.QueueName, k.Kind, k.Seconds, k.IsKnown,
                 case when k.IsKnown = 0
                           and u.DeclinedTime >= dateadd(second, case when k.Seconds < 60 then -60
                                                                      else -k.Seconds end, @p_now)
                      then u.UnknownSince else @p_now end as UnknownSince
            from (
              select d.QueueName, d.Kind, coalesce(o.UnknownKindSeconds, 600) as Seconds,
                     case when exists (
                            select 1 from rowlease.Workers as w
                             where w.Alive = 1
                               and d.QueueName in (select n.value collate Latin1_General_100_BIN2
                                                     from openjson(w.QueueNames) as n)
                               and (w.Kinds is null
                                    or d.Kind in (select n.[key] collate Latin1_General_100_BIN2
                                                    from openjson(w.Kinds) as n)))
                          then 1 else 0 end as IsKnown
                from (
                  select distinct q.QueueName, q.Kind
                    from openjson(@p_request_ids) as i
                    join rowlease.Queue as q with (forceseek (queue_pkey (RequestId)))
                      on q.RequestId = cast(i.value as bigint)) as d
                left join rowlease.QueueSettings as o on o.QueueName = d.QueueName) as k
            left join rowlease.UnknownKind as u
              with (forceseek (unknown_kind_pkey (QueueName, Kind))) on u.QueueName = k.QueueName and u.Kind = k.Kind) as s) as f;
