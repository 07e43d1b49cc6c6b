-- set_dead_letter_tasks: record which tasks run when requests of a worker's kinds become dead letters.
-- params:   p_queue_names text[], p_kinds text[] (all kinds of the worker), p_task_queues text[],
--           p_task_kinds text[] (for each kind the task's queue and kind; null: none)
-- returns:  void
-- errors:   none
-- locks:    rows of dead_letter_task, by queue and kind
-- why:      a lease may also be broken when no worker that knows the task is left, so the database
--           must know. Of several workers the one that starts last decides, and of a kind that is given
--           twice, its last task. Nothing is written if nothing has changed.
create or replace function rowlease.set_dead_letter_tasks(
  p_queue_names text[], p_kinds text[], p_task_queues text[], p_task_kinds text[]
) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
  with given as (
    select distinct on (g.kind) g.kind, g.task_queue, g.task_kind
      from unnest(p_kinds, p_task_queues, p_task_kinds)
           with ordinality as g(kind, task_queue, task_kind, place)
     order by g.kind, g.place desc
  ), gone as (
    delete from rowlease.dead_letter_task t
     where t.queue_name = any(p_queue_names)
       and t.kind in (select g.kind from given g where g.task_kind is null)
  )
  insert into rowlease.dead_letter_task as t (queue_name, kind, task_queue, task_kind)
  select distinct n, g.kind, g.task_queue, g.task_kind
    from unnest(p_queue_names) n
   cross join given g
   where g.task_kind is not null
   order by n, g.kind
      on conflict (queue_name, kind) do update
     set task_queue = excluded.task_queue, task_kind = excluded.task_kind
   where (t.task_queue, t.task_kind) <> (excluded.task_queue, excluded.task_kind);
$$;
