-- remove_worker: remove a worker that is ending.
-- params:   p_worker_id nvarchar(400)
-- why:      other workers do not have to wait until its heartbeat is too old.
create or alter procedure rowlease.remove_worker @p_worker_id nvarchar(400)
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
delete from rowlease.Worker where WorkerId = @p_worker_id;
