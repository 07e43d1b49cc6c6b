-- report_progress: store the progress of running requests.
-- params:   p_request_ids bigint[], p_lock_tokens bigint[], p_fractions double precision[] (0 to 1),
--           p_notes text[]
-- returns:  integer -- the number of requests for which progress was stored: those with a valid
--           lease
-- errors:   RL001 arrays of different lengths, or a fraction that is not from 0 to 1
-- locks:    rows of progress, in request order
-- why:      progress has its own table, so that reporting does not slow down the queue; maintain
--           deletes the progress of ended attempts.
create or replace function rowlease.report_progress(
  p_request_ids bigint[], p_lock_tokens bigint[], p_fractions double precision[], p_notes text[]
) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_kept integer;
begin
  perform rowlease_internal.check_arrays(p_request_ids, p_lock_tokens, cardinality(p_fractions),
                                cardinality(p_notes));
  if exists (select from unnest(p_fractions) as g(fraction)
              where g.fraction is null or g.fraction not between 0 and 1) then
    raise exception using errcode = 'RL001', message = 'a progress fraction must be from 0 to 1';
  end if;
  insert into rowlease.progress as p (request_id, lock_token, fraction, note, reported_time)
  select distinct on (g.id)
         q.request_id, q.lock_token, g.fraction, left(coalesce(g.note, ''), 400), rowlease.now()
    from unnest(p_request_ids, p_lock_tokens, p_fractions, p_notes)
         as g(id, token, fraction, note)
    join rowlease.queue q on q.request_id = any(array[g.id])
   where q.lock_token = g.token and q.locked_by is not null
   order by g.id
  on conflict (request_id) do update
     set lock_token = excluded.lock_token, fraction = excluded.fraction, note = excluded.note,
         reported_time = excluded.reported_time
   where p.lock_token <= excluded.lock_token;
  get diagnostics v_kept = row_count;
  return v_kept;
end $$;
