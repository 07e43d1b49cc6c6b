-- wait_for_batch: note that new requests wait for a batch, or give them the counts of one that is finished.
-- params:   p_after text, p_request_ids bigint[], p_outcomes text[] (null: all are new),
--           p_due_times timestamptz[]
-- returns:  boolean -- true
-- errors:   none
-- locks:    none: the requests are the caller's own
-- why:      take_batches has chosen the due times: null if the batch is finished. Then finish_idle_batches
--           will not see these requests.
create or replace function rowlease_internal.wait_for_batch(
  p_after text, p_request_ids bigint[], p_outcomes text[], p_due_times timestamptz[]
) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_ids bigint[] := array(
    select i.id from unnest(p_request_ids, p_outcomes) as i(id, outcome)
     where i.outcome is distinct from 'duplicate');
begin
  if p_due_times is not null then
    insert into rowlease.batch_wait (request_id, batch_id) select u.id, p_after from unnest(v_ids) as u(id);
  else
    update rowlease.queue q
       set headers = rowlease_internal.batch_headers(
             q.headers, b.batch_id, b.num_complete, b.num_failed, b.num_cancelled)
      from rowlease.batches b
     where b.batch_id = p_after and q.request_id = any(v_ids);
  end if;
  return true;
end $$;
