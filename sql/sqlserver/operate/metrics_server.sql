-- metrics_server: measure the server, for the exporter.
-- params:   none
-- returns:  metric text -- 'connections' | 'max_connections' | 'horizon_seconds'; on PostgreSQL also
--           'dead_rows', subject text (the table, or empty), value float
-- why:      a login without VIEW SERVER STATE counts its own sessions only, and gets no horizon. Times
--           of transactions are of the server's local clock. It reads no table of rowlease. Some T-SQL
--           engines lack the views.
create or alter procedure rowlease.metrics_server
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @found table (Metric varchar(30) not null, Value float not null);
insert into @found (Metric, Value)
select 'connections', count(*) from sys.dm_exec_sessions as s where s.is_user_process = 1;
insert into @found (Metric, Value) values ('max_connections', @@max_connections);
if object_id(N'sys.dm_tran_active_transactions') is not null
   and has_perms_by_name(null, null, 'VIEW SERVER STATE') = 1
  insert into @found (Metric, Value)
  select 'horizon_seconds',
         coalesce(max(datediff_big(millisecond, t.transaction_begin_time, getdate())), 0) / 1000.0
    from sys.dm_exec_sessions as s
    join sys.dm_tran_session_transactions as o
      on o.session_id = s.session_id and o.is_user_transaction = 1
    join sys.dm_tran_active_transactions as t on t.transaction_id = o.transaction_id
   where s.database_id = db_id() and s.session_id <> @@spid;
select f.Metric as metric, cast(N'' as nvarchar(128)) as subject, f.Value as value from @found as f;
