-- batch_headers: add the id and the counts of a finished batch to the headers of a request.
-- params:   p_headers json, p_batch_id text, p_num_complete bigint, p_num_failed bigint,
--           p_num_cancelled bigint
-- returns:  json
-- errors:   none
-- locks:    none
-- why:      a task that waited for a batch reads its counts there, and needs no rights on the database.
create or replace function rowlease_internal.batch_headers(
  p_headers json, p_batch_id text, p_num_complete bigint, p_num_failed bigint, p_num_cancelled bigint
) returns json
language sql stable
begin atomic
  select (coalesce(p_headers, '{}')::jsonb || jsonb_build_object(
    'batch_id', p_batch_id, 'batch_complete', p_num_complete::text,
    'batch_failed', p_num_failed::text, 'batch_cancelled', p_num_cancelled::text))::json;
end;
