-- diagnose_server: find settings and limits of the server that harm the queues.
-- params:   p_client_time timestamptz (null: not compared) -- the caller's clock
-- returns:  as diagnose; finding text -- 'connections' | 'clock' | 'read_only'; on PostgreSQL 'autovacuum' |
--           'dead_rows' | 'encoding'; on SQL Server 'snapshot' | 'compatibility'
-- errors:   none
-- locks:    none
-- why:      it runs with the rights of its caller, as diagnose_sessions, and reads no table of
--           rowlease. Between two autovacuums, a minute apart, a busy queue gets many dead rows. So
--           they are reported only if there was no vacuum for two minutes.
create or replace function rowlease.diagnose_server(p_client_time timestamptz default null)
returns table (finding text, subject text, message text, action text)
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  select 'autovacuum', s.name, format('the setting %s is %s, so dead rows stay', s.name, s.setting),
         format('set it: alter system set %s = %s, then select pg_reload_conf()', s.name,
                case s.name when 'autovacuum_naptime' then '''1s''' else 'on' end)
    from pg_settings s
   where s.name in ('autovacuum', 'track_counts') and s.setting = 'off'
      or s.name = 'autovacuum_naptime' and s.setting::integer > 60
  union all
  select 'autovacuum', 'rowlease.' || c.relname,
         format('autovacuum is off for the table rowlease.%s, so its dead rows stay', c.relname),
         format('switch it on: alter table rowlease.%I reset (autovacuum_enabled)', c.relname)
    from pg_class c
   where c.relnamespace = to_regnamespace('rowlease')
     and exists (select from pg_options_to_table(c.reloptions) o
                  where o.option_name = 'autovacuum_enabled' and not o.option_value::boolean)
  union all
  select 'dead_rows', 'rowlease.' || t.relname,
         format('the table rowlease.%s has %s dead rows beside %s live ones, and its indexes as many dead '
                'entries', t.relname, t.n_dead_tup, t.n_live_tup),
         format('end what holds the horizon back, if anything is reported, then vacuum rowlease.%I; '
                'set autovacuum_naptime to 1s', t.relname)
    from pg_stat_user_tables t
   where t.schemaname = 'rowlease' and t.n_dead_tup > 100000 and t.n_dead_tup > t.n_live_tup
     and coalesce(greatest(t.last_autovacuum, t.last_vacuum), '-infinity')
         < clock_timestamp() - interval '2 minutes'
  union all
  select 'connections', u.name,
         format('%s has %s of %s connections in use', u.name, u.used, u.allowed), u.action
    from (select 'the server' as name, sum(b.numbackends) as used,
                 current_setting('max_connections')::integer
                 - current_setting('superuser_reserved_connections')::integer as allowed,
                 'close sessions, put a pooler between, or raise max_connections' as action
            from pg_stat_database b
          union all
          select 'the database', b.numbackends, d.datconnlimit,
                 format('close sessions, or raise the limit: alter database %I connection limit %s',
                        d.datname, 2 * d.datconnlimit)
            from pg_database d join pg_stat_database b on b.datid = d.oid
           where d.datname = current_database() and d.datconnlimit > 0) u
   where u.used >= 0.9 * u.allowed
  union all
  select 'read_only', current_database(),
         format('transactions of the database "%s" are read-only, so nothing can be enqueued, claimed or '
                'finished', current_database()),
         case s.source when 'database'
              then format('alter database %I reset default_transaction_read_only', current_database())
              else 'alter system reset default_transaction_read_only, then select pg_reload_conf()' end
    from pg_settings s
   where s.name = 'default_transaction_read_only' and s.setting = 'on' and not pg_is_in_recovery()
     and s.source in ('database', 'configuration file', 'command line')
  union all
  select 'encoding', current_database(),
         format('the database has the encoding %s, which cannot hold every text',
                current_setting('server_encoding')),
         'move it into a database with the encoding UTF8'
   where current_setting('server_encoding') <> 'UTF8'
  union all
  select 'clock', 'the client',
         format('the clock of this client is %s s %s the database''s', round(abs(c.difference), 1),
                case when c.difference > 0 then 'ahead of' else 'behind' end),
         'synchronise both by NTP: due times and the times in logs are of different clocks'
    from (select extract(epoch from p_client_time - rowlease.now()) as difference) c
   where abs(c.difference) > 5;
$$;
