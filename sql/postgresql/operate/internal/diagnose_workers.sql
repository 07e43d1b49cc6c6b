-- diagnose_workers: find requests that no worker may claim; a part of diagnose.
-- params:   p_now timestamptz
-- returns:  as diagnose
-- errors:   none
-- locks:    none
-- why:      it looks at the kinds of the first requests of each queue, and at those that workers have
--           declined within a minute.
create or replace function rowlease_internal.diagnose_workers(p_now timestamptz)
returns table (finding text, subject text, message text, action text)
language sql stable
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off
as $$
  with kinds as materialized (
    select r.queue_name, r.kind from rowlease.ready r
    union
    select u.queue_name, u.kind from rowlease.unknown_kind u
     where u.declined_time > p_now - interval '1 minute')
  select distinct e.reason, k.queue_name, 'requests wait: ' || e.message,
         case e.reason when 'no_worker' then 'start a worker that has tasks of this queue'
                       when 'unknown_kind' then 'start a worker with this task, or cancel the requests'
                       else 'give that worker the task, or start it without --consumer-priority' end
    from kinds k
   cross join lateral rowlease_internal.explain_workers(k.queue_name, k.kind, p_now) e
   where e.reason is not null;
$$;
