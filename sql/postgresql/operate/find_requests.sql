-- find_requests: find requests, newest first, in steps of bounded cost.
-- params:   p_queue_name text, p_statuses text[], p_kind text, p_error text (part of last_error, in
--           any case), p_dedup_key text, p_group_key text, p_min_age_ms bigint, p_max_age_ms bigint
--           (since the enqueue), p_since timestamptz, p_until timestamptz (of the enqueue),
--           p_after bigint (look below this id), p_limit integer (how many to return),
--           p_look integer (how many to look at) -- each may be null
-- returns:  the columns of get_request, and after bigint: rows with a null in it, then one row with
--           nulls elsewhere, and where to go on: null: there are no more
-- errors:   none
-- locks:    none
-- why:      few filters have an index, so a call reads at most p_look requests of each table (of each
--           queue, for dead letters), and the next call goes on below them. Statuses choose the
--           tables; dead letters alone, or a few running requests, are found by their own index. The
--           order by queue_name, the row comparisons and `offset 0` keep the planner from the primary
--           key there, by which it would read the whole queue. In the lane, ids are counted.
create or replace function rowlease.find_requests(
  p_queue_name text default null, p_statuses text[] default null, p_kind text default null,
  p_error text default null, p_dedup_key text default null, p_group_key text default null,
  p_min_age_ms bigint default null, p_max_age_ms bigint default null,
  p_since timestamptz default null, p_until timestamptz default null, p_after bigint default null,
  p_limit integer default 100, p_look integer default 10000
) returns table (
  request_id bigint, queue_name text, kind text, status text, priority integer,
  due_time timestamptz, dedup_key text, group_key text, num_attempts integer, payload text,
  last_error text, result text, max_attempts integer, requested_time timestamptz, locked_by text,
  locked_time timestamptz, completion_time timestamptz, load_id text, attempts text, after bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now    timestamptz := rowlease.now();
  v_since  timestamptz := greatest(p_since, v_now - p_max_age_ms * interval '1 ms', '-infinity');
  v_until  timestamptz := least(p_until, v_now - p_min_age_ms * interval '1 ms', 'infinity');
  v_below  bigint := coalesce(p_after, 9223372036854775807);
  v_dead   boolean := coalesce(p_statuses <@ '{Failed}', false);
  v_runs   boolean := coalesce(p_statuses <@ '{Processing}', false)
                      and (select coalesce(sum(d.processing), 0) from rowlease.queue_depth d) <= p_look;
  v_live   boolean := not v_dead and not v_runs
                      and coalesce(p_statuses && '{Scheduled,Pending,Processing,Failed}', true);
  v_past   boolean := coalesce(p_statuses && '{Complete,Cancelled}', true);
  v_lane   boolean := v_live and coalesce('Pending' = any(p_statuses), true);
  v_queues text[] := array(select s.queue_name from rowlease.queue_settings s
                            where s.queue_name = coalesce(p_queue_name, s.queue_name));
  v_from   bigint;
  v_ids    bigint[];
begin
  v_from := coalesce(greatest(
    (select max(f.request_id) from unnest(v_queues) as n(name) cross join lateral (
       select q.request_id from rowlease.queue q
        where v_dead and q.status = 'Failed' and (q.queue_name, q.request_id) < (n.name, v_below)
          and (q.queue_name, q.request_id) >= (n.name, 0)
        order by q.queue_name desc, q.request_id desc offset p_look - 1 limit 1) f),
    (select q.request_id from rowlease.queue q where v_live and q.request_id < v_below
      order by q.request_id desc offset p_look - 1 limit 1),
    (select h.request_id from rowlease.queue_history h where v_past and h.request_id < v_below
      order by h.request_id desc offset p_look - 1 limit 1),
    (select max(least(p.last_id + 1, v_below)) - p_look from rowlease.load l
       join rowlease.lane_part p on p.run_number = l.run_number
      where v_lane and l.in_lane and p.first_id < v_below)), 0);
  v_ids := array(
    select r.request_id from (
      select q.request_id, q.queue_name, q.kind, q.status, q.requested_time, q.dedup_key,
             q.group_key, q.last_error from rowlease.queue q
       where v_live and q.request_id >= v_from and q.request_id < v_below
      union all
      select f.* from unnest(v_queues) as n(name) cross join lateral (
        select q.request_id, q.queue_name, q.kind, q.status, q.requested_time, q.dedup_key,
               q.group_key, q.last_error from rowlease.queue q
         where v_dead and q.status = 'Failed' and (q.queue_name, q.request_id) < (n.name, v_below)
           and (q.queue_name, q.request_id) >= (n.name, v_from)
         order by q.queue_name desc, q.request_id desc limit p_look) f
      union all
      select f.* from unnest(v_queues) as n(name) cross join lateral (
        select q.request_id, q.queue_name, q.kind, q.status, q.requested_time, q.dedup_key,
               q.group_key, q.last_error from rowlease.queue q
         where v_runs and q.status = 'Processing' and q.queue_name = n.name
           and q.request_id < v_below
        offset 0) f
      union all
      select h.request_id, h.queue_name, h.kind, h.status, h.requested_time, h.dedup_key,
             h.group_key, h.last_error from rowlease.queue_history h
       where v_past and h.request_id >= v_from and h.request_id < v_below
      union all
      select a.request_id, l.queue_name, a.kind, 'Pending', l.promoted_time, null, null, null
        from rowlease.load l join rowlease.lane_part p on p.run_number = l.run_number
        join rowlease.lane a on a.run_number = p.run_number and a.priority = p.priority
                            and a.part = p.part
       where v_lane and l.in_lane and p.last_id >= v_from and p.first_id < v_below
         and a.request_id >= v_from and a.request_id < v_below) r
     where (p_queue_name is null or r.queue_name = p_queue_name)
       and (p_statuses is null or r.status = any(p_statuses))
       and (p_kind is null or r.kind = p_kind)
       and (p_error is null or position(lower(p_error) in lower(r.last_error)) > 0)
       and (p_dedup_key is null or r.dedup_key = p_dedup_key)
       and (p_group_key is null or r.group_key = p_group_key)
       and r.requested_time >= v_since and r.requested_time <= v_until
     order by r.request_id desc limit p_limit);
  return query
    select g.*, null::bigint from unnest(v_ids) with ordinality as u(id, place)
     cross join lateral rowlease.get_request(u.id) g order by u.place;
  after := case when cardinality(v_ids) >= p_limit then v_ids[cardinality(v_ids)]
                when v_from > 0 then v_from end;
  return next;
end $$;
