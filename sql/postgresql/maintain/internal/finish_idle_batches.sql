-- finish_idle_batches: finish batches of which no request waits or runs, and make due the requests that wait for them.
-- params:   p_batch_id text (null: every batch), p_now timestamptz, p_limit integer
-- returns:  bigint -- how many batches were finished and requests made due
-- errors:   none
-- locks:    rows of batch, then of queue, skipping locked ones
-- why:      a step of maintain and of finish_batches. One transaction makes the requests due and finishes the batch, so
--           they are due once. After the lock, a new statement looks for counts that are not folded
--           yet: an enqueue that held the row before may just have committed. If another transaction
--           has locked a waiting request, its batch is finished later.
create or replace function rowlease_internal.finish_idle_batches(
  p_batch_id text, p_now timestamptz, p_limit integer) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  c_waits constant timestamptz := '9999-12-31 00:00+00';
  v_ids   text[] := array(
    select b.batch_id from rowlease.batch b
     where b.num_live = 0 and b.finished_time is null
       and b.batch_id = coalesce(p_batch_id, b.batch_id)
     order by b.batch_id limit p_limit for update skip locked);
  v_names text[];
  v_name  text;
  v_due   bigint := 0;
  v_count bigint := 0;
begin
  if cardinality(v_ids) > 0 then
    v_ids := array(select unnest(v_ids) except select d.load_id from rowlease.queue_depth d);
    with due as materialized (
      select q.request_id, w.batch_id
        from rowlease.batch_wait w
        join rowlease.queue q on q.request_id = any(array[w.request_id])
       where w.batch_id = any(v_ids) and q.status || '' = 'Scheduled' and q.due_time = c_waits
       limit p_limit for no key update of q skip locked),
    made as (
      update rowlease.queue q
         set due_time = p_now,
             headers = rowlease_internal.batch_headers(
               q.headers, b.batch_id, b.num_complete, b.num_failed,
               b.num_requests - b.num_complete - b.num_failed)
        from due d join rowlease.batch b on b.batch_id = d.batch_id
       where q.request_id = any(array[d.request_id])
      returning q.queue_name)
    select count(*), array_agg(distinct m.queue_name) into v_due, v_names from made m;
    foreach v_name in array coalesce(v_names, '{}') loop
      perform rowlease_internal.wake_workers(v_name, false);
    end loop;
    delete from rowlease.batch_wait w
     where w.batch_id = any(v_ids)
       and not exists (select from rowlease.queue q
                        where q.request_id = any(array[w.request_id])
                          and q.status || '' = 'Scheduled' and q.due_time = c_waits);
    update rowlease.batch b set finished_time = p_now
     where b.batch_id = any(v_ids)
       and not exists (select from rowlease.batch_wait w where w.batch_id = b.batch_id);
    get diagnostics v_count = row_count;
  end if;
  return v_due + v_count;
end $$;
