-- depth: count the requests that are waiting, running or failed, per queue and priority.
-- params:   p_queue_name text (null: every queue)
-- returns:  queue_name text, priority integer, scheduled bigint, pending bigint, processing bigint,
--           failed bigint -- highest priority first; priorities without requests are left out
-- errors:   RL002 unknown queue
-- locks:    none
-- why:      it adds up the counts that the routines have appended, and never counts rows of the
--           queue.
create or replace function rowlease.depth(p_queue_name text default null)
returns table (queue_name text, priority integer, scheduled bigint, pending bigint,
               processing bigint, failed bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  if p_queue_name is not null then
    perform rowlease_internal.check_queue(p_queue_name);
  end if;
  return query
    select d.queue_name::text, d.priority::integer, sum(d.scheduled)::bigint,
           sum(d.pending)::bigint, sum(d.processing)::bigint, sum(d.failed)::bigint
      from rowlease.queue_depth d
     where p_queue_name is null or d.queue_name = p_queue_name
     group by d.queue_name, d.priority
    having sum(d.scheduled) <> 0 or sum(d.pending) <> 0 or sum(d.processing) <> 0
        or sum(d.failed) <> 0
     order by d.queue_name, d.priority desc;
end $$;
