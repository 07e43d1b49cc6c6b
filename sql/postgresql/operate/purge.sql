-- purge: delete waiting or failed requests for good.
-- params:   p_queue_name text, p_statuses text[] (of Scheduled, Pending, Failed), p_kind text,
--           p_older_than_ms bigint (enqueued at least this long ago), p_limit integer,
--           p_dry_run boolean
-- returns:  bigint -- how many were deleted; in a dry run, how many would be
-- errors:   RL001 a status that cannot be purged, RL002 unknown queue
-- locks:    rows of lane, then of queue, exclusive, in request order, skipping locked ones
-- why:      running requests are not touched: cancel those instead. To delete more than p_limit
--           requests, call this until it returns 0.
create or replace function rowlease.purge(
  p_queue_name text, p_statuses text[] default '{Failed}', p_kind text default null,
  p_older_than_ms bigint default 0, p_limit integer default 10000, p_dry_run boolean default false
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now    timestamptz := rowlease.now();
  v_count  bigint;
  v_rows   tid[] := '{}';
  v_groups text[];
begin
  perform rowlease_internal.settings_of(p_queue_name);
  if not p_statuses <@ array['Scheduled', 'Pending', 'Failed'] then
    raise exception using errcode = 'RL001',
      message = 'purge deletes requests that are Scheduled, Pending or Failed; cancel running requests';
  end if;
  if 'Pending' = any(p_statuses) then
    v_rows := array(
      select r.ctid from rowlease.load l join rowlease.lane r on r.run_number = l.run_number
       where l.queue_name = p_queue_name and l.in_lane and (p_kind is null or r.kind = p_kind)
         and l.promoted_time <= v_now - coalesce(p_older_than_ms, 0) * interval '1 ms'
       limit p_limit for update of r skip locked);
  end if;
  if not p_dry_run then
    perform rowlease_internal.bring_in(v_rows);
    v_rows := '{}';
  end if;
  with chosen as materialized (
    select q.request_id, q.priority, q.status from rowlease.queue q
     where q.queue_name = p_queue_name and q.status = any(p_statuses)
       and (p_kind is null or q.kind = p_kind)
       and q.requested_time <= v_now - coalesce(p_older_than_ms, 0) * interval '1 ms'
     order by q.request_id
     limit p_limit
       for update skip locked),
  purged as (
    delete from rowlease.queue q using chosen c
     where q.request_id = c.request_id and not p_dry_run
    returning q.request_id, q.priority, q.status, q.group_key),
  forgotten as (
    delete from rowlease.attempt a using purged p where a.request_id = p.request_id),
  counted as (
    insert into rowlease.queue_depth (queue_name, priority, scheduled, pending, failed)
    select p_queue_name, p.priority, -count(*) filter (where p.status = 'Scheduled'),
           -count(*) filter (where p.status = 'Pending'),
           -count(*) filter (where p.status = 'Failed')
      from purged p group by p.priority)
  select least((select count(*) from chosen) + cardinality(v_rows), p_limit),
         array_agg(p.group_key) filter (where p.group_key is not null)
    into v_count, v_groups from purged p;
  if v_groups is not null then
    perform rowlease_internal.unblock_groups(array_fill(p_queue_name, array[cardinality(v_groups)]), v_groups);
  end if;
  return v_count;
end $$;
