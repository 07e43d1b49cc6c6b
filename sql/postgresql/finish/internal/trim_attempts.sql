-- trim_attempts: keep only the newest ten attempts of each request.
-- params:   p_request_ids bigint[]
-- returns:  void
-- errors:   none
-- locks:    rows of attempt, exclusive: the caller has locked their rows of queue
-- why:      a request may have any number of attempts, because max_attempts may be large and a dead
--           letter may be requeued.
create or replace function rowlease_internal.trim_attempts(p_request_ids bigint[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
  delete from rowlease.attempt a
   using (select u.id, t.lock_token
            from unnest(p_request_ids) as u(id)
           cross join lateral (
             select o.lock_token from rowlease.attempt o where o.request_id = u.id
              order by o.request_id, o.lock_token desc offset 10 limit 1) t) old
   where a.request_id = old.id and a.lock_token <= old.lock_token;
end $$;
