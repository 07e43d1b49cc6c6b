-- diagnose_sessions: find sessions that block others, or keep dead rows from being removed.
-- params:   p_long_ms bigint (null: a minute for a transaction, 5 s for a wait) -- the shortest time
--           to report
-- why:      only a login with VIEW SERVER STATE may see the sessions of others. Times of transactions
--           are of the server's local clock. It reads no table of rowlease. Some T-SQL engines lack the
--           views.
create or alter procedure rowlease.diagnose_sessions @p_long_ms bigint = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @found table (
  Finding varchar(20) not null, Subject nvarchar(200) not null, Message nvarchar(4000) not null,
  Action nvarchar(4000) not null);
if has_perms_by_name(null, null, 'VIEW SERVER STATE') = 0
  insert into @found (Finding, Subject, Message, Action)
  select 'hidden', N'sessions',
         concat(N'login "', suser_sname(), N'" may not see the sessions of others, so none of them is named here'),
         concat(N'grant it: grant view server state to ', quotename(suser_sname()));
else if object_id(N'sys.dm_tran_active_transactions') is not null
begin
  insert into @found (Finding, Subject, Message, Action)
  select 'horizon', concat(N'session ', s.session_id),
         concat(N'session ', s.session_id, N' (user "', s.login_name, N'", application "', s.program_name,
                N'", ', s.status, N') has been in a transaction since ',
                convert(nvarchar(19), t.transaction_begin_time, 121),
                N', so no row that was deleted or changed since then can be removed'),
         concat(N'end it: kill ', s.session_id)
    from sys.dm_exec_sessions as s
    join sys.dm_tran_session_transactions as o
      on o.session_id = s.session_id and o.is_user_transaction = 1
    join sys.dm_tran_active_transactions as t on t.transaction_id = o.transaction_id
   where s.database_id = db_id() and s.session_id <> @@spid
     and datediff_big(millisecond, t.transaction_begin_time, getdate()) > coalesce(@p_long_ms, 60000);
  insert into @found (Finding, Subject, Message, Action)
  select 'blocker', concat(N'session ', b.Blocker),
         concat(N'session ', b.Blocker, N' (user "', s.login_name, N'", application "', s.program_name,
                N'") has blocked others (', b.Number, N'), the first for ',
                rowlease_internal.seconds_text(b.WaitMs / 1000)),
         concat(N'end its transaction: kill ', b.Blocker)
    from (select r.blocking_session_id as Blocker, count(*) as Number,
                 cast(max(r.wait_time) as bigint) as WaitMs
            from sys.dm_exec_requests as r
           where r.database_id = db_id() and r.blocking_session_id > 0
             and r.wait_time > coalesce(@p_long_ms, 5000)
           group by r.blocking_session_id) as b
    left join sys.dm_exec_sessions as s on s.session_id = b.Blocker;
end;
select f.Finding as finding, f.Subject as subject, f.Message as message, f.Action as action from @found as f;
