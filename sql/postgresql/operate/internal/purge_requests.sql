-- purge_requests: delete requests for good, also from the history.
-- params:   p_request_ids bigint[]
-- returns:  void
-- errors:   none
-- locks:    rows of queue_history and attempt, exclusive; as unblock_groups; the caller has locked the
--           rows of queue
-- why:      a running request is not deleted, even if it is named.
create or replace function rowlease_internal.purge_requests(p_request_ids bigint[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
as $$
declare
  v_queues text[];
  v_groups text[];
begin
  with purged as (
    delete from rowlease.queue q
     where q.request_id = any(p_request_ids) and q.locked_by is null
    returning q.request_id, q.queue_name, q.priority, q.load_id, q.status, q.group_key),
  past as (
    delete from rowlease.queue_history h where h.request_id = any(p_request_ids)
    returning h.request_id),
  forgotten as (
    delete from rowlease.attempt a
     using (select p.request_id from purged p union all select p.request_id from past p) p
     where a.request_id = p.request_id),
  counted as (
    insert into rowlease.queue_depth (queue_name, priority, load_id, scheduled, pending, failed)
    select p.queue_name, p.priority, p.load_id, -count(*) filter (where p.status = 'Scheduled'),
           -count(*) filter (where p.status = 'Pending'),
           -count(*) filter (where p.status = 'Failed')
      from purged p group by p.queue_name, p.priority, p.load_id)
  select array_agg(p.queue_name) filter (where p.group_key is not null),
         array_agg(p.group_key) filter (where p.group_key is not null)
    into v_queues, v_groups from purged p;
  if v_groups is not null then
    perform rowlease_internal.unblock_groups(v_queues, v_groups);
  end if;
end $$;
