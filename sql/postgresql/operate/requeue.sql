-- requeue: move dead letters back into the queue, by id or by filter.
-- params:   p_request_ids bigint[] (null: use the filter), p_queue_name text, p_kind text,
--           p_error_like text (a LIKE pattern on last_error), p_limit integer, p_dry_run boolean
-- returns:  request_id bigint, outcome text -- 'ok' | 'duplicate' (a live request has its dedup
--           key) | 'not_found' (it is not a dead letter)
-- errors:   RL001 neither ids nor a filter
-- locks:    rows of queue, exclusive, in request order; held to the caller's commit
-- why:      attempts and crashes are reset to 0; the token is never reset, and the mark of a
--           broken lease (lock_expires_time) stays. The request is due now, and its last error
--           stays until the next attempt. To requeue more than p_limit requests, call this until
--           it returns no row.
create or replace function rowlease.requeue(
  p_request_ids bigint[] default null, p_queue_name text default null, p_kind text default null,
  p_error_like text default null, p_limit integer default 10000, p_dry_run boolean default false
) returns table (request_id bigint, outcome text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now  timestamptz := rowlease.now();
  v_ids  bigint[] := p_request_ids;
  v_live bigint[];
  v_name text;
begin
  if v_ids is null and p_queue_name is null and p_kind is null and p_error_like is null then
    raise exception using errcode = 'RL001',
      message = 'requeue needs request ids, or a queue, kind or error to select dead letters';
  elsif v_ids is null then
    v_ids := array(
      select q.request_id from rowlease.queue q
       where q.status = 'Failed' and q.queue_name = coalesce(p_queue_name, q.queue_name)
         and (p_kind is null or q.kind = p_kind)
         and (p_error_like is null or q.last_error like p_error_like)
       order by q.request_id limit p_limit);
  end if;
  -- If several dead letters have the same dedup key, only the first is requeued.
  for v_try in 1..3 loop
    begin
      with held as materialized (
        select q.request_id, q.queue_name, q.group_key, q.dedup_key from rowlease.queue q
         where q.request_id = any(v_ids) and q.status || '' = 'Failed'
         order by q.request_id for update),
      chosen as materialized (
        select h.request_id from (
          select h.*, row_number() over (partition by h.queue_name, h.dedup_key order by h.request_id)
                   as place from held h) h
         where h.dedup_key is null or h.place = 1 and not exists (
           select from rowlease.queue l
            where l.queue_name = h.queue_name and l.dedup_key = h.dedup_key and l.status <> 'Failed')),
      revived as (
        update rowlease.queue q
           set status = 'Pending', due_time = v_now, num_attempts = 0, num_crashes = 0,
               num_abandons = 0, completion_time = null
          from chosen c
         where q.request_id = c.request_id and q.status || '' = 'Failed' and not p_dry_run
        returning q.request_id, q.queue_name, q.priority),
      counted as (
        insert into rowlease.queue_depth (queue_name, priority, failed, pending)
        select r.queue_name, r.priority, -count(*), count(*) from revived r group by 1, 2)
      select array_agg(c.request_id) into v_live from chosen c;
      exit;
    exception when unique_violation then
      -- A concurrent enqueue took a dedup key; the next try sees its request.
      if v_try = 3 then raise; end if;
    end;
  end loop;
  for v_name in select distinct q.queue_name from rowlease.queue q
                 where q.request_id = any(v_live) and not p_dry_run loop
    perform rowlease_internal.wake_workers(v_name, true);
  end loop;
  return query
    select u.id, case when u.id = any(v_live) then 'ok'
                      when exists (select from rowlease.queue q
                                    where q.request_id = u.id and q.status || '' = 'Failed')
                      then 'duplicate' else 'not_found' end
      from unnest(v_ids) with ordinality as u(id, place) order by u.place;
end $$;
