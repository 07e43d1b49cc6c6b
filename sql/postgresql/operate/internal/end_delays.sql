-- end_delays: make requests due that wait for the rate of their group.
-- params:   p_queue_name text
-- returns:  void
-- errors:   none
-- locks:    rows of queue, exclusive, in request order
-- why:      when the settings change, the next claim decides again. A queue without such starts costs a
--           probe of an index.
create or replace function rowlease_internal.end_delays(p_queue_name text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off
as $$
begin
  with delayed as materialized (
    select q.request_id
      from rowlease.rate_start r
      join rowlease.queue q on q.queue_name = p_queue_name and q.group_key = substr(r.rate_key, 2)
     where r.queue_name = p_queue_name and r.rate_key > '' and q.group_key is not null
       and q.status = 'Scheduled' and q.due_time = r.expires_time
     order by q.request_id for no key update of q)
  update rowlease.queue q set due_time = rowlease.now()
    from delayed d where q.request_id = any(array[d.request_id]) and q.status = 'Scheduled';
end $$;
