-- end_part: count the rows that a part of a load has put into the lane, as their transaction commits.
-- params:   none -- a trigger on rowlease.lane, for the row of a part that is marked ends_part
-- returns:  trigger
-- errors:   RL004 as check_names; RL014 the run is over: another run has taken the load over, or the load is promoted, or
--           its run was ended
-- locks:    the load's row, shared; rows of lane_part that another attempt is committing, by priority
-- why:      this is the fence of the lane: only rows of a transaction that has ended its part are ever
--           requests. The lock waits for a promote or a takeover that is running, and makes later ones
--           wait for this commit. So the rows of a part count from before the promotion, or not at all.
--           Rows without a mark, and rows that come later, belong to no part; sweep_lane deletes them.
--           A writer needs nothing but INSERT. Over JDBC all attempts of a task write the same part:
--           the first one that commits counts, and the rows of any other are deleted. If two commit at
--           once and have no priority in common, both count, and promote refuses the load. All
--           priorities are named, so that lane_part is read through its key.
create or replace function rowlease_internal.end_part() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
declare
  c_priorities constant smallint[] := array(select generate_series(0, 255));
  v_now timestamptz := rowlease.now();
begin
  perform rowlease_internal.check_names(new.payload);
  perform from rowlease.load l
    where l.run_number = new.run_number and l.status = 'Staging'
      for key share;
  if not found then
    raise exception using errcode = 'RL014',
      message = format('run %s of a load is over: the load is promoted, or a later run has taken it '
                       'over, or its job failed or was cancelled; rows that this run writes now do '
                       'not count', new.run_number);
  end if;
  insert into rowlease.lane_part (
    run_number, priority, part, writer, num_rows, first_id, last_id, to_queue)
  select new.run_number, r.priority, new.part, new.writer, count(*), min(r.request_id),
         max(r.request_id), bool_or(
           num_nonnulls(r.dedup_key, r.group_key) > 0 or (r.due_time > v_now) is true)
    from rowlease.lane r
   where r.writer = new.writer and r.run_number = new.run_number and r.part = new.part
   group by r.priority
   order by r.priority
  on conflict do nothing;
  perform from rowlease.lane_part p
    where p.run_number = new.run_number and p.priority = any(c_priorities) and p.part = new.part
      and p.writer <> new.writer;
  if found then
    delete from rowlease.lane_part p
     where p.run_number = new.run_number and p.priority = any(c_priorities) and p.part = new.part
       and p.writer = new.writer;
    delete from rowlease.lane r
     where r.writer = new.writer and r.run_number = new.run_number and r.part = new.part;
  end if;
  return null;
end $$;

do $$
begin
  if not exists (select from pg_catalog.pg_trigger t
                  where t.tgrelid = 'rowlease.lane'::regclass and t.tgname = 'end_part') then
    create constraint trigger end_part after insert on rowlease.lane
      deferrable initially deferred
      for each row when (new.ends_part) execute function rowlease_internal.end_part();
  end if;
end $$;
