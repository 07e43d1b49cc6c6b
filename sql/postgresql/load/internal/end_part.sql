-- end_part: count the rows that a part of a load has put into the lane, as their transaction commits.
-- params:   none -- a trigger on rowlease.lane, for the row of a part that is marked ends_part
-- returns:  trigger
-- errors:   RL014 another run has taken the load over, or the load is promoted; 40001 only some rows
--           of a copy could be dropped
-- locks:    the load's row, shared; rows of lane_part that another attempt is committing, by priority
-- why:      this is the fence of the lane. The lock waits for a promote or a takeover that is running,
--           and makes later ones wait for this commit. So rows are committed either before the load is
--           promoted, with their count, or not at all. A writer needs nothing but INSERT. Over JDBC
--           all attempts of a task write the same part: the first one that commits counts, and the
--           rows of any other are dropped. If two commit at once and have no priority in common, both
--           count, and promote refuses the load. Priorities are tried one by one: a search for the
--           next one would step over the rows of parts that are not committed yet.
create or replace function rowlease_internal.end_part() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
declare
  c_priorities constant smallint[] := array(select generate_series(0, 255));
begin
  perform from rowlease.load l
    where l.run_number = new.run_number and l.status = 'Staging'
      for key share;
  if not found then
    raise exception using errcode = 'RL014',
      message = format('run %s of a load is over: the load is promoted, or a later run has taken it '
                       'over; rows that this run writes now do not count', new.run_number);
  end if;
  insert into rowlease.lane_part (run_number, priority, part, num_rows, first_id, last_id)
  select new.run_number, r.priority, new.part, count(*), min(r.request_id), max(r.request_id)
    from rowlease.lane r
   where r.run_number = new.run_number and r.priority = any(c_priorities) and r.part = new.part
   group by r.priority
   order by r.priority
  on conflict do nothing;
  perform from rowlease.lane_part p
    where p.run_number = new.run_number and p.priority = any(c_priorities) and p.part = new.part
      and p.xmin <> pg_current_xact_id()::xid;
  if found then
    delete from rowlease.lane_part p
     where p.run_number = new.run_number and p.priority = any(c_priorities) and p.part = new.part
       and p.xmin = pg_current_xact_id()::xid;
    delete from rowlease.lane r
     where r.run_number = new.run_number and r.priority = any(c_priorities) and r.part = new.part
       and r.xmin = pg_current_xact_id()::xid;
    if (select count(*) from rowlease.lane r
         where r.run_number = new.run_number and r.priority = any(c_priorities)
           and r.part = new.part)
       <> (select sum(p.num_rows) from rowlease.lane_part p
            where p.run_number = new.run_number and p.priority = any(c_priorities)
              and p.part = new.part)
    then
      raise exception using errcode = '40001',
        message = 'this part of a load is written already, and its copy was written with savepoints, '
                  'so it cannot be dropped; write it without savepoints';
    end if;
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
