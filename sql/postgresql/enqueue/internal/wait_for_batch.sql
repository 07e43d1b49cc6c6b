-- wait_for_batch: note that new requests wait for a batch.
-- params:   p_after text, p_request_ids bigint[], p_outcomes text[] (null: all are new),
--           p_due_times timestamptz[]
-- returns:  boolean -- true
-- errors:   none
-- locks:    none: rows are only added
-- why:      take_batches has chosen the due times: null if the batch is finished.
create or replace function rowlease_internal.wait_for_batch(
  p_after text, p_request_ids bigint[], p_outcomes text[], p_due_times timestamptz[]
) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into rowlease.batch_wait (request_id, batch_id)
  select i.id, p_after
    from unnest(p_request_ids, p_outcomes, p_due_times) as i(id, outcome, due_time)
   where i.due_time is not null and i.outcome is distinct from 'duplicate';
  return true;
end $$;
