-- diagnose_batches: find batches that cannot end; a part of diagnose.
-- params:   p_limit integer -- if there are more requests than this, they are not counted
-- returns:  as diagnose
-- errors:   none
-- locks:    none
-- why:      a batch whose counts are wrong, or whose requests are in a queue that was deleted by hand, is
--           not finished. Batches that wait for each other are found by leaving out those that wait for
--           none, or that none waits for, until no more can be left out. Of the waits it reads 10,000.
create or replace function rowlease_internal.diagnose_batches(p_limit integer)
returns table (finding text, subject text, message text, action text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  v_from  text[];
  v_to    text[];
  v_ids   bigint[];
  v_count integer;
begin
  return query
    with rows as materialized (
      select q.load_id, q.queue_name, q.status from rowlease.queue q
       where q.load_id is not null limit p_limit + 1),
    lane as materialized (
      select l.load_id, l.queue_name, 'Pending' as status
        from rowlease.load l join rowlease.lane_part p on p.run_number = l.run_number
        join rowlease.lane r on r.run_number = p.run_number and r.writer = p.writer
                            and r.priority = p.priority and r.part = p.part
                            and r.request_id >= p.first_id and r.request_id <= p.last_id
       where l.in_lane limit p_limit + 1),
    members as materialized (
      select * from rows union all select * from lane),
    batches as materialized (
      select b.batch_id, b.num_live,
             (select count(*) from members m where m.load_id = b.batch_id and m.status <> 'Failed') as live
        from rowlease.batches b
       where b.finished_time is null
         and (b.num_live < 0 or (select count(*) from members) <= p_limit))
    select 'batch', b.batch_id::text,
           format('the batch "%s" counts %s unfinished requests and has %s, so it does not end rightly',
                  b.batch_id, b.num_live, b.live),
           format('correct the counts: select * from rowlease.%s()', 'recount')
      from batches b where b.num_live < 0 or b.num_live <> b.live
    union all
    select 'batch', m.load_id::text,
           format('requests of the batch "%s" are in the queue "%s", which does not exist (%s)', m.load_id,
                  m.queue_name, count(*)),
           format('create the queue: rowlease queue create %s', m.queue_name)
      from members m
     where m.status <> 'Failed'
       and not exists (select from rowlease.queue_settings s where s.queue_name = m.queue_name)
     group by m.load_id, m.queue_name;
  select array_agg(w.load_id), array_agg(w.batch_id), array_agg(w.request_id)
    into v_from, v_to, v_ids
    from (select q.load_id, p.batch_id, min(q.request_id) as request_id
            from (select * from rowlease.batch_wait limit 10000) p
            join rowlease.queue q on q.request_id = p.request_id
           where q.load_id is not null and q.status = 'Scheduled' and q.due_time = '9999-12-31 00:00+00'
           group by q.load_id, p.batch_id) w;
  loop
    v_count := cardinality(v_from);
    select array_agg(w.a), array_agg(w.b), array_agg(w.id) into v_from, v_to, v_ids
      from unnest(v_from, v_to, v_ids) as w(a, b, id)
     where w.a = any(v_to) and w.b = any(v_from);
    exit when coalesce(cardinality(v_from), 0) = coalesce(v_count, 0);
  end loop;
  return query
    select 'batch', w.a,
           format('the batch "%s" waits for the batch "%s", which waits for it, so neither ends', w.a, w.b),
           format('make a request that waits due now: rowlease requests reschedule id:%s', w.id)
      from unnest(v_from, v_to, v_ids) as w(a, b, id) order by w.a, w.b;
end $$;
