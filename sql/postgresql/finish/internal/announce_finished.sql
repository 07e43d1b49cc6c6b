-- announce_finished: notify programs that wait for requests to finish.
-- params:   p_request_ids bigint[]
-- returns:  void
-- errors:   none
-- locks:    none
-- why:      NOTIFY takes a database-wide lock at commit, so call it only if somebody_waits. A message
--           has at most 8,000 bytes, and 300 ids always fit.
create or replace function rowlease_internal.announce_finished(p_request_ids bigint[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform pg_notify('rowlease_finished', string_agg(u.id::text, ' '))
     from unnest(p_request_ids) with ordinality as u(id, place)
    group by (u.place - 1) / 300;
end $$;
