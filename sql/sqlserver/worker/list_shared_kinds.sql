-- list_shared_kinds: list the kinds that live workers of one queue have for different tasks.
-- params:   none
create or alter procedure rowlease.list_shared_kinds
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
with Program as (
  select w.QueueNames, w.Kinds, min(w.WorkerId) as WorkerId
    from rowlease.Workers as w
   where w.Alive = 1 and w.Kinds is not null
   group by w.QueueNames, w.Kinds),
Known as (
  select q.value collate Latin1_General_100_BIN2 as QueueName,
         k.[key] collate Latin1_General_100_BIN2 as Kind,
         k.value collate Latin1_General_100_BIN2 as Task, min(p.WorkerId) as WorkerId
    from Program as p
   cross apply openjson(p.QueueNames) as q
   cross apply openjson(p.Kinds) as k
   group by q.value collate Latin1_General_100_BIN2, k.[key] collate Latin1_General_100_BIN2,
            k.value collate Latin1_General_100_BIN2),
Counted as (
  select n.QueueName, n.Kind, n.Task, n.WorkerId,
         count_big(*) over (partition by n.QueueName, n.Kind) as Tasks
    from Known as n)
select c.QueueName as queue_name, c.Kind as kind, c.Task as task, c.WorkerId as worker_id
  from Counted as c
 where c.Tasks > 1
 order by c.QueueName, c.Kind, c.Task;
