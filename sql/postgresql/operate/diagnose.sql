-- diagnose: find problems of the queues, and an action for each.
-- params:   none
-- returns:  finding text -- 'table_lock' | 'paused' | 'full' | 'old' | 'stuck' | 'no_worker' |
--           'unknown_kind' | 'consumer_priority' | 'overdue' | 'gate' | 'group' | 'counts' |
--           'schedule' | 'batch' | 'dead_letters' | 'ids' (PostgreSQL) | 'maintain', subject text (the
--           queue, schedule or table), message text, action text; no row: there is no problem
-- errors:   none
-- locks:    none; if another session is taking a lock on a table, it waits for at most 2 s
-- why:      while a table is locked exclusively, it reports only that. Counts are compared with the
--           rows of queues that show at most 10,000 requests; in larger queues it notices a count
--           below 0. diagnose_server looks at the server.
create or replace function rowlease.diagnose()
returns table (finding text, subject text, message text, action text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set lock_timeout = '2s'
as $$
declare
  v_now   timestamptz := rowlease.now();
  v_table record := rowlease_internal.table_lock();
begin
  if v_table.message is not null then
    return query select 'table_lock', 'rowlease', v_table.message,
                        format('end that session''s transaction: select pg_terminate_backend(%s)',
                               substring(v_table.message from '^session (\d+)'));
  end if;
  if not coalesce(v_table.is_exclusive, false) then
    return query select * from rowlease_internal.diagnose_queues(v_now);
    return query select * from rowlease_internal.diagnose_workers(v_now);
    return query select * from rowlease_internal.diagnose_stuck(v_now);
    return query select * from rowlease_internal.diagnose_counts(10000);
    return query select * from rowlease_internal.diagnose_batches(10000);
    return query select * from rowlease_internal.diagnose_dead_letters(v_now);
    return query select * from rowlease_internal.diagnose_ids();
    return query select * from rowlease_internal.diagnose_maintain();
  end if;
end $$;
