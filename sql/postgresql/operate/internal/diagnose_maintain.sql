-- diagnose_maintain: find steps of the housekeeping that fail; a part of diagnose.
-- params:   none
-- returns:  as diagnose
-- errors:   none
-- locks:    none
-- why:      maintain goes on with its other steps, so nothing else would show the failure.
create or replace function rowlease_internal.diagnose_maintain()
returns table (finding text, subject text, message text, action text)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select 'maintain', coalesce(nullif(f.queue_name, ''), 'maintain'),
         format('the step "%s" of maintain has failed since %s: %s', f.what,
                to_char(f.failed_since at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'), f.error),
         'a row was changed by hand, or the server refuses: correct or delete what the error names; '
         'maintain tries again every second, and its other steps go on'
    from rowlease.maintain_failure f
   order by f.failed_since, f.what, f.queue_name;
$$;
