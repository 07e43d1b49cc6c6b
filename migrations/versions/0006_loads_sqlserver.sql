-- The columns of load that say how far it is, on SQL Server; 0006_loads.py runs this file.
alter table rowlease.[Load] alter column QueueName nvarchar(100) collate Latin1_General_100_BIN2 null;
go
alter table rowlease.[Load] add [Columns] nvarchar(max) collate Latin1_General_100_BIN2 null;
alter table rowlease.[Load] add NumStaged bigint not null default 0;
alter table rowlease.[Load] add ReportedTime datetime2(6) null;
go
update rowlease.[Load] set ReportedTime = coalesce(PromotedTime, StartedTime);
go
alter table rowlease.[Load] alter column ReportedTime datetime2(6) not null;
go
alter table rowlease.[Load] add RowsPerSecond as
  cast(NumStaged * 1000.0 / nullif(datediff_big(millisecond, StartedTime, ReportedTime), 0) as float);
go
-- Next to none are not promoted, but the ledger of all loads only grows.
create index load_staging on rowlease.[Load] (ReportedTime) where Status = 'Staging';
