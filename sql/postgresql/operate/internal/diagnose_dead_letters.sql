-- diagnose_dead_letters: find queues with more dead letters than when the day began; a part of diagnose.
-- params:   p_now timestamptz
-- returns:  as diagnose
-- errors:   none
-- locks:    none
-- why:      old dead letters are known. Counts are compared, so that no request is read.
create or replace function rowlease_internal.diagnose_dead_letters(p_now timestamptz)
returns table (finding text, subject text, message text, action text)
language sql stable
set search_path = pg_catalog, pg_temp set timezone = 'UTC'
set jit = off set enable_seqscan = off
as $$
  select 'dead_letters', t.queue_name::text,
         format('the queue "%s" has %s dead letters, %s more than when the day began (UTC)',
                t.queue_name, t.failed, t.failed - d.num_failed),
         format('see their errors: rowlease requests errors; mend the cause, then: '
                'rowlease requests requeue queue:%s', t.queue_name)
    from (select c.queue_name, sum(c.failed) as failed
            from rowlease.queue_depth c group by c.queue_name) t
    join rowlease.queue_day d on d.queue_name = t.queue_name and d.day = p_now::date
   where t.failed > d.num_failed
   order by t.queue_name;
$$;
