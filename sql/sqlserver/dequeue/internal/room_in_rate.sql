-- room_in_rate: compute how many requests may start now, and when the next one may.
-- params:   p_queue_name nvarchar(400), p_rate_key nvarchar(400) (empty: the queue; else a colon and
--           the group), p_rate nvarchar(30) (the setting, such as 100/1m), p_now datetime2(6)
-- returns:  room bigint -- 0 or more; next_start datetime2(6) -- when the oldest start leaves the
--           period; null if there was no start in it
create or alter function rowlease_internal.room_in_rate(
  @p_queue_name nvarchar(400), @p_rate_key nvarchar(400), @p_rate nvarchar(30), @p_now datetime2(6)
) returns table
as
return
  select case when r.num_starts + coalesce(f.Before - l.Total, 0) > 0
              then r.num_starts + coalesce(f.Before - l.Total, 0) else 0 end as room,
         rowlease_internal.add_ms(f.StartedTime, r.period_ms) as next_start
    from rowlease_internal.rate_parts(@p_rate) as r
   outer apply (
     select top (1) s.StartedTime, s.Total - s.NumStarts as Before
       from rowlease.RateStart as s with (forceseek (rate_start_pkey (QueueName, RateKey)))
      where s.QueueName = @p_queue_name and s.RateKey = @p_rate_key
        and s.StartedTime > rowlease_internal.add_ms(@p_now, -r.period_ms)
      order by s.StartedTime, s.Total) as f
   outer apply (
     select top (1) s.Total
       from rowlease.RateStart as s with (forceseek (rate_start_pkey (QueueName, RateKey)))
      where s.QueueName = @p_queue_name and s.RateKey = @p_rate_key
      order by s.StartedTime desc, s.Total desc) as l;
