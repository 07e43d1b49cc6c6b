-- sweep_progress: delete the progress of attempts that have ended.
-- params:   p_limit integer
-- returns:  bigint -- how many
-- errors:   none
-- locks:    rows of progress, exclusive, skipping locked ones
-- why:      a step of maintain.
create or replace function rowlease_internal.sweep_progress(p_limit integer) returns bigint
language sql
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  with gone as (
    delete from rowlease.progress p
     where p.request_id = any(array(
             select o.request_id from rowlease.progress o
              where not exists (select from rowlease.queue q
                                 where q.request_id = any(array[o.request_id])
                                   and q.lock_token = o.lock_token
                                   and q.locked_by is not null)
              limit p_limit for update skip locked))
    returning 1)
  select count(*) from gone;
$$;
