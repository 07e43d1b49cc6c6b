-- revive: make dead letters wait again.
-- params:   p_request_ids bigint[], p_now timestamptz
-- returns:  request_id bigint, outcome text -- 'ok' | 'duplicate' (a live request has its dedup
--           key) | 'not_found' (it is not a dead letter)
-- errors:   none
-- locks:    none: the caller has locked the rows of queue
-- why:      attempts and crashes are reset to 0; the token is never reset, and the mark of a
--           broken lease (lock_expires_time) stays. The request is due now, and its last error
--           stays until the next attempt.
create or replace function rowlease_internal.revive(p_request_ids bigint[], p_now timestamptz)
returns table (request_id bigint, outcome text)
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_live bigint[];
begin
  -- If several dead letters have the same dedup key, only the first is requeued.
  for v_try in 1..3 loop
    begin
      with held as materialized (
        select q.request_id, q.queue_name, q.dedup_key
          from unnest(p_request_ids) as u(id)
          join rowlease.queue q on q.request_id = any(array[u.id]) and q.status || '' = 'Failed'),
      chosen as materialized (
        select h.request_id from (
          select h.*, row_number() over (partition by h.queue_name, h.dedup_key order by h.request_id)
                   as place from held h) h
         where h.dedup_key is null or h.place = 1 and not exists (
           select from rowlease.queue l
            where l.queue_name = h.queue_name and l.dedup_key = h.dedup_key and l.status <> 'Failed')),
      revived as (
        update rowlease.queue q
           set status = 'Pending', due_time = p_now, num_attempts = 0, num_crashes = 0,
               num_abandons = 0, completion_time = null
          from chosen c
         where q.request_id = any(array[c.request_id]) and q.status || '' = 'Failed'
        returning q.request_id, q.queue_name, q.priority, q.load_id),
      counted as (
        insert into rowlease.queue_depth (queue_name, priority, load_id, failed, pending)
        select r.queue_name, r.priority, r.load_id, -count(*), count(*)
          from revived r group by r.queue_name, r.priority, r.load_id)
      select array_agg(c.request_id) into v_live from chosen c;
      exit;
    exception when unique_violation then
      -- A concurrent enqueue took a dedup key; the next try sees its request.
      if v_try = 3 then raise; end if;
    end;
  end loop;
  return query
    select u.id, case when u.id = any(v_live) then 'ok'
                      when exists (select from rowlease.queue q
                                    where q.request_id = u.id and q.status || '' = 'Failed')
                      then 'duplicate' else 'not_found' end
      from unnest(p_request_ids) with ordinality as u(id, place) order by u.place;
end $$;
