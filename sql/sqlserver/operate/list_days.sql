-- list_days: list how many requests were finished in each day, of a queue or of all.
-- params:   p_queue_name nvarchar(400) (null: all queues), p_days int (how many days, the last is today)
-- locks:    the counts' lock, shared, while they are read
create or alter procedure rowlease.list_days @p_queue_name nvarchar(400) = null, @p_days int = 30
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @since date = dateadd(day, -@p_days, cast(rowlease.now() as date));
declare @totals table (
  QueueName nvarchar(100) collate Latin1_General_100_BIN2 not null, Day date not null,
  NumFinished bigint not null, NumFailures bigint not null, NumFailed bigint not null,
  primary key (QueueName, Day));
begin transaction;
exec rowlease_internal.take_lock N'rowlease:depth', 'Shared';
insert into @totals (QueueName, Day, NumFinished, NumFailures, NumFailed)
select q.QueueName, '9999-12-31', sum(q.NumFinished), sum(q.NumFailures), sum(q.Failed)
  from rowlease.QueueDepth as q with (readpast, readcommittedlock)
 where @p_queue_name is null or q.QueueName = @p_queue_name
 group by q.QueueName;
commit transaction;
insert into @totals (QueueName, Day, NumFinished, NumFailures, NumFailed)
select d.QueueName, d.Day, d.NumFinished, d.NumFailures, d.NumFailed
  from rowlease.QueueDay as d
 where (@p_queue_name is null or d.QueueName = @p_queue_name) and d.Day > @since;
with Differences as (
  select t.Day, lead(t.NumFinished) over (partition by t.QueueName order by t.Day)
                - t.NumFinished as NumFinished,
         lead(t.NumFailures) over (partition by t.QueueName order by t.Day)
                - t.NumFailures as NumFailures,
         lead(t.NumFailed) over (partition by t.QueueName order by t.Day) as NumFailed
    from @totals as t),
Summed as (
  select d.Day, coalesce(sum(d.NumFinished), 0) as NumFinished,
         coalesce(sum(d.NumFailures), 0) as NumFailures, coalesce(sum(d.NumFailed), 0) as NumFailed
    from Differences as d
   where d.Day < '9999-12-31'
   group by d.Day)
select s.Day as day, case when s.NumFinished > 0 then s.NumFinished else 0 end as num_finished,
       case when s.NumFailures > 0 then s.NumFailures else 0 end as num_failures,
       case when s.NumFailed > 0 then s.NumFailed else 0 end as num_failed
  from Summed as s
 order by s.Day desc;
