-- The table of schedules on SQL Server; 0003_schedule.py runs this file, batch by batch.
create table rowlease.Schedule (
  ScheduleName    nvarchar(200) collate Latin1_General_100_BIN2 not null,
  Cron            nvarchar(200) collate Latin1_General_100_BIN2 not null,
  TimeZone        nvarchar(100) collate Latin1_General_100_BIN2 not null default 'UTC',
  QueueName       nvarchar(100) collate Latin1_General_100_BIN2 not null,
  Kind            nvarchar(200) collate Latin1_General_100_BIN2 not null,
  Payload         nvarchar(max) not null,
  Priority        smallint      not null default 0,
  CatchUp         int           not null default 1,
  Paused          bit           not null default 0,
  NextTime        datetime2(6)  null,
  LastTime        datetime2(6)  null,
  LastRequestId   bigint        null,
  ChangedTime     datetime2(6)  not null,
  LockedBy        nvarchar(200) collate Latin1_General_100_BIN2 null,
  LockExpiresTime datetime2(6)  null,
  LockToken       bigint        not null default 0,
  constraint schedule_pkey primary key (ScheduleName),
  constraint schedule_says_its_name check (ScheduleName <> ''),
  constraint schedule_cron check (Cron like '_% _% _% _% _%'),
  constraint schedule_time_zone check (TimeZone <> ''),
  constraint schedule_says_what check (Kind <> ''),
  constraint schedule_priority check (Priority between 0 and 255),
  constraint schedule_catch_up check (CatchUp between 1 and 1000),
  constraint schedule_lease_is_whole check (
    (LockedBy is null and LockExpiresTime is null
     or LockedBy is not null and LockExpiresTime is not null) and LockToken >= 0)
);
go
create index schedule_planned on rowlease.Schedule (NextTime) where Paused = 0;
