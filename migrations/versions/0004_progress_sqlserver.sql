-- The table of progress on SQL Server; 0004_progress.py runs this file.
create table rowlease.Progress (
  RequestId    bigint        not null,
  LockToken    bigint        not null,
  Fraction     float         not null,
  Note         nvarchar(400) not null,
  ReportedTime datetime2(6)  not null,
  constraint progress_pkey primary key (RequestId),
  constraint progress_fraction check (Fraction between 0 and 1)
);
