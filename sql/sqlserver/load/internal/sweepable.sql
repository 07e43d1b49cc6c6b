-- sweepable: find out whether rows of the lane or old loads may be there to delete.
-- params:   p_day_ago datetime2(6), p_kept datetime2(6) (the end of the retention)
-- returns:  what varchar(10) -- a row for each kind
-- errors:   none
-- locks:    none; rows that others have locked are skipped
-- why:      most databases have none of them most of the time; then sweep_loads and sweep_lane are not
--           called.
create or alter function rowlease_internal.sweepable(@p_day_ago datetime2(6), @p_kept datetime2(6))
returns table
as
return
  select 'lane' as what where exists (
    select 1 from rowlease.Lane as r
      with (forceseek (lane_pkey (RunNumber)), readpast, readcommittedlock)
     where r.RunNumber > -1)
  union all
  select 'parts' where exists (
    select 1 from rowlease.LanePart as p
      with (forceseek (lane_part_pkey (RunNumber)), readpast, readcommittedlock)
     where p.RunNumber > -1)
  union all
  select 'used up' where exists (
    select 1 from rowlease.[Load] as l
      with (forceseek (load_in_lane (QueueName)), readpast, readcommittedlock)
     where l.QueueName > N'' and l.InLane = 1)
  union all
  select 'silent' where exists (
    select 1 from rowlease.[Load] as l
      with (forceseek (load_staging (ReportedTime)), readpast, readcommittedlock)
     where l.Status in ('Staging', 'Ended') and l.ReportedTime < @p_day_ago)
  union all
  select 'old' where exists (
    select 1 from rowlease.[Load] as l
      with (forceseek (load_stream (PromotedTime)), readpast, readcommittedlock)
     where l.StreamName is not null and l.InLane = 0 and l.PromotedTime < @p_kept);
