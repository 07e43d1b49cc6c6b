-- enqueue_many: put many requests into a queue, all or none.
-- params:   p_queue_name text, p_kinds text[], p_payloads text[], p_priorities integer[],
--           p_delays_ms bigint[], p_due_times timestamptz[], p_dedup_keys text[],
--           p_group_keys text[], p_max_attempts integer[], p_retry_bases_ms integer[],
--           p_receipt_key text, p_in_transaction boolean, p_wait_ms bigint, p_waiter_id bigint
-- returns:  request_id bigint, outcome text -- 'ok' | 'duplicate' | 'repeat', in the order given;
--           or one row (waiter id, 'full'): call again with it before 2 s have passed
-- errors:   RL002 unknown queue, RL003 bad priority, RL004 bad payload, RL005 queue is full,
--           RL006 no kind, RL007 attempts below 1
-- locks:    the receipt's key; queue_settings if the queue has a capacity; rows of queue with the
--           same dedup key while their enqueue is not committed
-- why:      one statement for the whole batch. The receipt makes a second try after an unknown
--           commit answer with the first one's ids. A whole array may be null: all defaults.
create or replace function rowlease.enqueue_many(
  p_queue_name text, p_kinds text[], p_payloads text[], p_priorities integer[] default null,
  p_delays_ms bigint[] default null, p_due_times timestamptz[] default null,
  p_dedup_keys text[] default null, p_group_keys text[] default null,
  p_max_attempts integer[] default null, p_retry_bases_ms integer[] default null,
  p_receipt_key text default null, p_in_transaction boolean default true,
  p_wait_ms bigint default null, p_waiter_id bigint default null
) returns table (request_id bigint, outcome text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now      timestamptz := rowlease.now();
  v_settings rowlease.queue_settings;
  v_priority integer;
  v_ids      bigint[];
  v_outcomes text[];
begin
  if p_receipt_key is not null then
    insert into rowlease.enqueue_receipt (receipt_key, request_ids, received_time)
    values (p_receipt_key, '{}', v_now) on conflict do nothing;
    if not found then
      return query
        select i.id, 'repeat'::text
          from rowlease.enqueue_receipt r, unnest(r.request_ids) with ordinality as i(id, place)
         where r.receipt_key = p_receipt_key order by i.place;
      return;
    end if;
  end if;
  v_priority := (select max(coalesce(u, 0)) from unnest(coalesce(p_priorities, '{0}')) as u);
  v_settings := rowlease.admit(p_queue_name, coalesce(cardinality(p_kinds), 0), v_priority, v_now,
                               p_waiter_id, p_wait_ms > 0);
  if v_settings.queue_name is null then
    delete from rowlease.enqueue_receipt r where r.receipt_key = p_receipt_key;
    return query select rowlease.wait_for_room(p_queue_name, v_priority, cardinality(p_kinds), v_now,
                                               p_wait_ms, p_waiter_id), 'full'::text;
    return;
  end if;

  with given as materialized (
    select row_number() over () as place, g.*,
           greatest(coalesce(g.due_time, v_now + g.delay_ms * interval '1 ms', v_now), v_now) as due,
           rowlease.check_request(g.kind, g.priority, g.payload, g.max_attempts) as checked
      from unnest(p_kinds, p_payloads, p_priorities, p_delays_ms, p_due_times, p_dedup_keys,
                  p_group_keys, p_max_attempts, p_retry_bases_ms)
           as g(kind, payload, priority, delay_ms, due_time, dedup_key, group_key,
                max_attempts, retry_base_ms)),
  -- Of equal keys inside one call the first wins; ON CONFLICT alone would refuse the second late.
  fresh as materialized (
    select g.*, nextval('rowlease.queue_request_id_seq') as id,
           rowlease.group_is_busy(p_queue_name, g.group_key)
             or g.group_key is not null and row_number() over (
                  partition by g.group_key order by g.place) > 1 as blocked
      from (select distinct on (coalesce('k' || g.dedup_key, 'p' || g.place)) g.*
              from given g order by coalesce('k' || g.dedup_key, 'p' || g.place), g.place) g
     order by g.place),
  added as (
    insert into rowlease.queue (
      request_id, queue_name, kind, status, priority, requested_time, due_time, max_attempts,
      retry_base_ms, dedup_key, group_key, group_blocked, payload)
    overriding system value
    select f.id, p_queue_name, f.kind, case when f.due > v_now then 'Scheduled' else 'Pending' end,
           least(coalesce(f.priority, 0), v_settings.max_priority), v_now, f.due,
           coalesce(f.max_attempts, v_settings.max_attempts), f.retry_base_ms, f.dedup_key,
           f.group_key, f.blocked, coalesce(f.payload, '{}')::json
      from fresh f
     order by f.place
    on conflict (queue_name, dedup_key) where dedup_key is not null and status <> 'Failed'
    do nothing
    returning request_id, priority, status),
  counted as (
    insert into rowlease.queue_depth (queue_name, priority, scheduled, pending)
    select p_queue_name, a.priority, count(*) filter (where a.status = 'Scheduled'),
           count(*) filter (where a.status = 'Pending')
      from added a group by a.priority)
  select array_agg(a.request_id order by g.place) into v_ids
    from given g
    left join fresh f on f.place = g.place
    left join added a on a.request_id = f.id;

  select array_agg(coalesce(i.id, q.request_id) order by i.place),
         array_agg(case when i.id is null then 'duplicate' else 'ok' end order by i.place)
    into v_ids, v_outcomes
    from unnest(v_ids, p_dedup_keys) with ordinality as i(id, dedup_key, place)
    left join rowlease.queue q on i.id is null and q.queue_name = p_queue_name
         and q.dedup_key = i.dedup_key and q.status <> 'Failed';
  if p_receipt_key is not null then
    update rowlease.enqueue_receipt set request_ids = coalesce(v_ids, '{}')
     where receipt_key = p_receipt_key;
  end if;
  if p_waiter_id is not null then
    delete from rowlease.queue_waiter w where w.waiter_id = p_waiter_id;
  end if;
  -- Somebody has to add the counts up where no worker calls maintain: one call in 200 does.
  if not p_in_transaction and random() < 0.005 then
    perform rowlease.fold_depth(2000);
  end if;
  perform rowlease.wake_workers(p_queue_name, p_in_transaction);
  return query select * from unnest(v_ids, v_outcomes);
end $$;
