-- report_progress: store the progress of running requests.
-- params:   p_request_ids nvarchar(max), p_lock_tokens nvarchar(max),
--           p_fractions nvarchar(max) (0 to 1), p_notes nvarchar(max)
create or alter procedure rowlease.report_progress
  @p_request_ids nvarchar(max), @p_lock_tokens nvarchar(max), @p_fractions nvarchar(max),
  @p_notes nvarchar(max)
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6) = rowlease.now(), @kept int;
declare @given table (RequestId bigint not null primary key, LockToken bigint not null,
                     Fraction float not null, Note nvarchar(400) not null);
exec rowlease_internal.check_arrays @p_request_ids, @p_lock_tokens, @p_fractions, @p_notes;
if exists (select 1 from openjson(@p_fractions) as f
            where f.value is null or cast(f.value as float) not between 0 and 1)
  throw 51001, N'a progress fraction must be from 0 to 1', 1;
begin transaction;
insert into @given (RequestId, LockToken, Fraction, Note)
select q.RequestId, q.LockToken, cast(f.value as float), left(coalesce(n.value, N''), 400)
  from (select g.request_id, g.lock_token, max(g.place) as place
          from rowlease_internal.held_pairs(@p_request_ids, @p_lock_tokens) as g
         group by g.request_id, g.lock_token) as g
  join rowlease.Queue as q with (forceseek (queue_pkey (RequestId))) on q.RequestId = g.request_id
  join openjson(@p_fractions) as f on cast(f.[key] as int) = g.place
  join openjson(@p_notes) as n on cast(n.[key] as int) = g.place
 where q.LockToken = g.lock_token and q.LockedBy is not null
option (maxdop 1);
set @kept = @@rowcount;
update p
   set LockToken = s.LockToken, Fraction = s.Fraction, Note = s.Note, ReportedTime = @now
  from @given as s
 inner join rowlease.Progress as p with (index (progress_pkey), forceseek, updlock, holdlock)
         on p.RequestId = s.RequestId
option (loop join, force order, maxdop 1);
insert into rowlease.Progress (RequestId, LockToken, Fraction, Note, ReportedTime)
select s.RequestId, s.LockToken, s.Fraction, s.Note, @now
  from @given as s
 where not exists (select 1 from rowlease.Progress as p with (forceseek (progress_pkey (RequestId)))
                    where p.RequestId = s.RequestId)
 order by s.RequestId;
commit transaction;
select @kept as kept;
