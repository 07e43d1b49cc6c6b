-- after_leases: unblock groups, cancel requests, report dead letters and notify workers after leases have ended.
-- params:   p_queue_names text[], p_group_keys text[], p_cancel_ids bigint[], p_wake text[],
--           p_dead_ids bigint[], p_now timestamptz
-- returns:  void
-- errors:   none
-- locks:    as unblock_groups; the caller has locked the requests
-- why:      the last step of all that may make dead letters. The first two arrays name, in pairs, the
--           groups that may continue; p_cancel_ids are requests whose cancellation waited for the
--           end of their lease; p_wake are queues that have more requests to claim; p_dead_ids are
--           requests that are dead letters now. A null array means that there is nothing to do.
create or replace function rowlease_internal.after_leases(
  p_queue_names text[], p_group_keys text[], p_cancel_ids bigint[], p_wake text[],
  p_dead_ids bigint[], p_now timestamptz
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_name text;
begin
  if p_group_keys is not null then
    perform rowlease_internal.unblock_groups(p_queue_names, p_group_keys);
  end if;
  if p_cancel_ids is not null then
    perform rowlease_internal.cancel_requests(p_cancel_ids, null);
  end if;
  if p_dead_ids is not null then
    perform rowlease_internal.report_dead_letters(p_dead_ids, p_now);
    if rowlease_internal.somebody_waits() then
      perform rowlease_internal.announce_finished(p_dead_ids);
    end if;
  end if;
  foreach v_name in array coalesce(p_wake, '{}') loop
    perform rowlease_internal.wake_workers(v_name, false);
  end loop;
end $$;
