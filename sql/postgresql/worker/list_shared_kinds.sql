-- list_shared_kinds: list the kinds that live workers of one queue have for different tasks.
-- params:   none
-- returns:  queue_name text, kind text, task text, worker_id text (one of its workers)
-- errors:   none
-- locks:    none
-- why:      two programs that share a queue may name two things alike, and each would run the other's
--           requests. Workers of one program have the same text in kinds, so it is read once.
create or replace function rowlease.list_shared_kinds()
returns table (queue_name text, kind text, task text, worker_id text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  with program as (
    select w.queue_names::text as queues, w.kinds::text as kinds, min(w.worker_id) as worker_id
      from rowlease.workers w
     where w.alive
     group by w.queue_names::text, w.kinds::text),
  known as (
    select q.queue_name, k.kind, k.task, min(p.worker_id) as worker_id
      from program p
     cross join lateral json_array_elements_text(p.queues::json) as q(queue_name)
     cross join lateral json_each_text(p.kinds::json) as k(kind, task)
     group by q.queue_name, k.kind, k.task)
  select s.queue_name, s.kind, s.task, s.worker_id
    from (select k.*, count(*) over (partition by k.queue_name, k.kind) as tasks from known k) s
   where s.tasks > 1
   order by s.queue_name, s.kind, s.task;
$$;
