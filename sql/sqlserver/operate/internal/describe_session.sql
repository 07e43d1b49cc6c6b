-- describe_session: describe the session that has locked rows of the queue or a gate.
-- params:   p_resource_type nvarchar(60) (KEY or APPLICATION), p_message nvarchar(4000) output
-- returns:  p_message -- null: there is no such session
-- errors:   297, 300 the caller may not see the server's state
-- why:      if there are several sessions, it describes the one with the oldest transaction. SQL
--           Server does not document how to find the row of a lock.
create or alter procedure rowlease_internal.describe_session
  @p_resource_type nvarchar(60), @p_message nvarchar(4000) output
as
set nocount on;
set xact_abort on;
if object_id(N'sys.dm_tran_locks') is null
  return;  -- some T-SQL engines do not have it
select top (1) @p_message = concat(
         N'session ', l.request_session_id, N' (user "', s.login_name, N'", application "',
         s.program_name, N'", in a transaction since ',
         convert(nvarchar(19), t.transaction_begin_time, 121), N' of the server''s clock)')
  from sys.dm_tran_locks as l
  join sys.dm_exec_sessions as s on s.session_id = l.request_session_id
  join sys.dm_tran_session_transactions as o on o.session_id = s.session_id
  join sys.dm_tran_active_transactions as t on t.transaction_id = o.transaction_id
 where l.resource_database_id = db_id() and l.request_status = 'GRANT'
   and l.request_session_id <> @@spid and l.resource_type = @p_resource_type
   and (l.resource_type = 'APPLICATION' and l.resource_description like N'%rowlease:gate%'
        or l.request_mode in ('U', 'X') and l.resource_associated_entity_id in (
             select p.hobt_id from sys.partitions as p where p.object_id = object_id(N'rowlease.Queue')))
 order by t.transaction_begin_time;
