-- begin_day: note the totals of queues that have none of this day, and drop those of long ago.
-- params:   p_now timestamptz
-- returns:  bigint -- how many rows were added or dropped
-- errors:   none
-- locks:    the caller holds the gate without a name; rows of queue_day
-- why:      a day costs one row for each queue, and no completion pays for it. A new queue begins at 0,
--           so that what it finished before this call counts. Days are kept for as long as operations,
--           or as the history if that is longer.
create or replace function rowlease_internal.begin_day(p_now timestamptz) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp set timezone = 'UTC'
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_new     text[] := array(
    select s.queue_name from rowlease.queue_settings s
     where not exists (select from rowlease.queue_day d
                        where d.queue_name = s.queue_name and d.day = p_now::date));
  v_days    integer;
  v_added   bigint;
  v_dropped bigint;
begin
  if cardinality(v_new) = 0 then
    return 0;
  end if;
  insert into rowlease.queue_day (queue_name, day, num_finished, num_failures, num_failed)
  select n.name, p_now::date,
         least(coalesce(sum(t.num_finished), 0), 9223372036854775807),
         least(coalesce(sum(t.num_failures), 0), 9223372036854775807), coalesce(sum(t.failed), 0)
    from unnest(v_new) as n(name)
    left join rowlease.queue_depth t
           on t.queue_name = n.name
          and exists (select from rowlease.queue_day d where d.queue_name = n.name)
   group by n.name;
  get diagnostics v_added = row_count;
  v_days := greatest(90, (select max(s.retention_days) from rowlease.queue_settings s));
  delete from rowlease.queue_day d where d.day < p_now::date - v_days;
  get diagnostics v_dropped = row_count;
  return v_added + v_dropped;
end $$;
