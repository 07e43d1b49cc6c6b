-- diagnose_server: find settings and limits of the server that harm the queues.
-- params:   p_client_time datetime2(6) (null: not compared) -- the caller's clock
-- why:      a login without VIEW SERVER STATE counts its own sessions only. Routines read lists by
--           OPENJSON, which needs the compatibility level 130. It reads no table of rowlease.
create or alter procedure rowlease.diagnose_server @p_client_time datetime2(6) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @ms bigint = datediff_big(millisecond, rowlease.now(), @p_client_time);
select f.finding, f.subject, f.message, f.action
  from (
    select cast(N'snapshot' as nvarchar(20)) as finding, cast(d.name as nvarchar(128)) as subject,
           concat(N'READ_COMMITTED_SNAPSHOT is off in the database "', d.name,
                  N'", so readers of a row wait for its writers') as message,
           concat(N'alter database ', quotename(d.name),
                  N' set read_committed_snapshot on, while no other session uses it') as action
      from sys.databases as d
     where d.database_id = db_id() and d.is_read_committed_snapshot_on = 0
    union all
    select cast(N'compatibility' as nvarchar(20)), cast(d.name as nvarchar(128)),
           concat(N'the database "', d.name, N'" has the compatibility level ', d.compatibility_level,
                  N', and OPENJSON, with which routines read lists, needs 130'),
           concat(N'alter database ', quotename(d.name), N' set compatibility_level = 150')
      from sys.databases as d
     where d.database_id = db_id() and d.compatibility_level < 130
    union all
    select cast(N'read_only' as nvarchar(20)), cast(d.name as nvarchar(128)),
           concat(N'the database "', d.name, N'" is read-only, so nothing can be enqueued, claimed or finished'),
           concat(N'alter database ', quotename(d.name), N' set read_write')
      from sys.databases as d
     where d.database_id = db_id() and d.is_read_only = 1
    union all
    select cast(N'connections' as nvarchar(20)), cast(N'the server' as nvarchar(128)),
           concat(N'the server has ', u.Used, N' of ', @@max_connections, N' connections in use'),
           N'close sessions, or put a pooler between'
      from (select count(*) as Used from sys.dm_exec_sessions as s where s.is_user_process = 1) as u
     where u.Used >= 0.9 * @@max_connections
    union all
    select cast(N'clock' as nvarchar(20)), cast(N'the client' as nvarchar(128)),
           concat(N'the clock of this client is ', cast(abs(@ms) / 1000.0 as decimal(18, 1)), N' s ',
                  case when @ms > 0 then N'ahead of' else N'behind' end, N' the database''s'),
           N'synchronise both by NTP: due times and the times in logs are of different clocks'
     where abs(@ms) > 5000) as f;
