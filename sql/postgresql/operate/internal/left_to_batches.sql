-- left_to_batches: find the requests that an operation leaves alone because they wait for a batch.
-- params:   p_verb text, p_filter jsonb, p_request_ids bigint[]
-- returns:  bigint[]
-- errors:   none
-- locks:    none
-- why:      to reschedule such a request makes it run before its batch has ended. That is done to
--           requests that are named by id, but not to those that a filter happens to select.
create or replace function rowlease_internal.left_to_batches(
  p_verb text, p_filter jsonb, p_request_ids bigint[]) returns bigint[]
language sql stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
as $$
  select array(
    select u.id
      from unnest(p_request_ids) as u(id)
      join rowlease.batch_wait w on w.request_id = any(array[u.id])
      join rowlease.queue q on q.request_id = any(array[u.id])
     where p_verb = 'reschedule' and p_filter ->> 'ids' is null
       and q.status || '' = 'Scheduled' and q.due_time = '9999-12-31 00:00+00')
$$;
