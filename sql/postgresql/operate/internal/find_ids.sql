-- find_ids: find the ids of requests, newest first, in a step of bounded cost.
-- params:   p_filter jsonb (as of find_requests), p_now timestamptz (for ages), p_after bigint (look
--           below this id), p_limit integer (how many to return), p_look integer (how many to look at)
-- returns:  request_ids bigint[], after bigint -- where the next call continues; null: there are no
--           more
-- errors:   none
-- locks:    none
-- why:      few filters have an index, so a call reads at most p_look requests of each table (of each
--           queue, for dead letters), and the next call continues below them. The statuses of the
--           filter decide which tables are read. Ids have an index of their own, and so have dead
--           letters and running requests, if the filter selects only these. The index of leases is
--           not in the order of ids, so all leases of the queue are read, if there are at most ten
--           times p_look. If there are more, the newest p_look requests are read. The order by
--           queue_name, the row comparisons and `offset 0` keep the planner from the primary key
--           there, by which it would read the whole queue. In the lane, ids are counted.
create or replace function rowlease_internal.find_ids(
  p_filter jsonb, p_now timestamptz, p_after bigint, p_limit integer, p_look integer,
  out request_ids bigint[], out after bigint)
language plpgsql stable
set search_path = pg_catalog, pg_temp set timezone = 'UTC'
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_f      record;
  v_below  bigint := coalesce(p_after, 9223372036854775807);
  v_named  boolean := p_filter ->> 'ids' is not null;
  v_dead   boolean;
  v_runs   boolean;
  v_live   boolean;
  v_past   boolean;
  v_lane   boolean;
  v_since  timestamptz;
  v_until  timestamptz;
  v_queues text[];
  v_from   bigint;
begin
  select * into v_f from jsonb_to_record(p_filter) as f(
    queue text, status text[], kind text, error text, error_pattern text, dedup_key text,
    group_key text, load_id text, worker text, ids bigint[], min_priority integer,
    max_priority integer, min_age_ms bigint, max_age_ms bigint, since timestamptz, until timestamptz);
  v_dead := not v_named and coalesce(v_f.status <@ '{Failed}', false);
  v_runs := not v_named and coalesce(v_f.status <@ '{Processing}', false)
            and (select coalesce(sum(d.processing), 0) from rowlease.queue_depth d
                  where d.queue_name = coalesce(v_f.queue, d.queue_name)) <= 10 * p_look;
  v_live := not v_named and not v_dead and not v_runs
            and coalesce(v_f.status && '{Scheduled,Pending,Processing,Failed}', true);
  v_past := not v_named and coalesce(v_f.status && '{Complete,Cancelled}', true);
  v_lane := v_live and coalesce('Pending' = any(v_f.status), true);
  v_since := greatest(v_f.since, p_now - v_f.max_age_ms * interval '1 ms', '-infinity');
  v_until := least(v_f.until, p_now - v_f.min_age_ms * interval '1 ms', 'infinity');
  v_queues := array(select s.queue_name from rowlease.queue_settings s
                     where s.queue_name = coalesce(v_f.queue, s.queue_name));
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
  request_ids := array(
    select r.request_id from (
      select q.request_id, q.queue_name, q.kind, q.status, q.requested_time, q.dedup_key,
             q.group_key, q.last_error, q.load_id, q.locked_by, q.priority from rowlease.queue q
       where v_live and q.request_id >= v_from and q.request_id < v_below
      union all
      select f.* from unnest(v_queues) as n(name) cross join lateral (
        select q.request_id, q.queue_name, q.kind, q.status, q.requested_time, q.dedup_key,
               q.group_key, q.last_error, q.load_id, q.locked_by, q.priority from rowlease.queue q
         where v_dead and q.status = 'Failed' and (q.queue_name, q.request_id) < (n.name, v_below)
           and (q.queue_name, q.request_id) >= (n.name, v_from)
         order by q.queue_name desc, q.request_id desc limit p_look) f
      union all
      select f.* from unnest(v_queues) as n(name) cross join lateral (
        select q.request_id, q.queue_name, q.kind, q.status, q.requested_time, q.dedup_key,
               q.group_key, q.last_error, q.load_id, q.locked_by, q.priority from rowlease.queue q
         where v_runs and q.status = 'Processing' and q.queue_name = n.name
           and q.request_id < v_below
        offset 0) f
      union all
      select h.request_id, h.queue_name, h.kind, h.status, h.requested_time, h.dedup_key,
             h.group_key, h.last_error, h.load_id, h.locked_by, h.priority
        from rowlease.queue_history h
       where v_past and h.request_id >= v_from and h.request_id < v_below
      union all
      select a.request_id, l.queue_name, a.kind, 'Pending', l.promoted_time, null, null, null,
             l.load_id, null, a.priority
        from rowlease.load l join rowlease.lane_part p on p.run_number = l.run_number
        join rowlease.lane a on a.run_number = p.run_number and a.writer = p.writer
                            and a.priority = p.priority and a.part = p.part
       where v_lane and l.in_lane and p.last_id >= v_from and p.first_id < v_below
         and a.request_id >= greatest(v_from, p.first_id)
         and a.request_id <= least(v_below - 1, p.last_id)
      union all
      select f.* from (select distinct unnest(v_f.ids) as id) as u cross join lateral (
        select r.request_id, r.queue_name, r.kind, r.status, r.requested_time, r.dedup_key,
               r.group_key, r.last_error, r.load_id, r.locked_by, r.priority
          from rowlease.requests r
         where r.request_id = u.id and u.id < v_below
         limit 1) f) r
     where (v_f.queue is null or r.queue_name = v_f.queue)
       and (v_f.status is null or r.status = any(v_f.status))
       and (v_f.kind is null or r.kind = v_f.kind)
       and (v_f.error is null or position(lower(v_f.error) in lower(r.last_error)) > 0)
       and (v_f.error_pattern is null or v_f.error_pattern = left(regexp_replace(
             split_part(left(r.last_error, 250), e'\n', 1), '[0-9]+', '#', 'g'), 200))
       and (v_f.dedup_key is null or r.dedup_key = v_f.dedup_key)
       and (v_f.group_key is null or r.group_key = v_f.group_key)
       and (v_f.load_id is null or r.load_id = v_f.load_id)
       and (v_f.worker is null or r.locked_by = v_f.worker
            or starts_with(r.locked_by, v_f.worker || ':'))
       and r.priority >= coalesce(v_f.min_priority, 0)
       and r.priority <= coalesce(v_f.max_priority, 255)
       and r.requested_time >= v_since and r.requested_time <= v_until
     order by r.request_id desc limit p_limit);
  after := case when cardinality(request_ids) >= p_limit then request_ids[cardinality(request_ids)]
                when v_from > 0 then v_from end;
end $$;
