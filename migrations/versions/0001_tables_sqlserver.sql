-- The tables of rowlease on SQL Server. Routines, views and grants are in sql/sqlserver.
--
-- The same tables, columns and constraints as on PostgreSQL, spelled in PascalCase. Names and keys
-- compare byte by byte, as they do there. READPAST skips rows, never pages, so the indexes have no
-- page locks; a lock of the queue must never escalate to the whole table. A filtered index includes
-- the columns of its filter, or a query that asks for the filter would look at the row itself.

if database_principal_id('rowlease_owner') is null create role rowlease_owner;
if database_principal_id('rowlease_producer') is null create role rowlease_producer;
if database_principal_id('rowlease_worker') is null create role rowlease_worker;
if database_principal_id('rowlease_operator') is null create role rowlease_operator;
if database_principal_id('rowlease_reader') is null create role rowlease_reader;
-- Only its members can take rowlease's application locks.
if database_principal_id('rowlease_lock') is null create role rowlease_lock;
alter role rowlease_lock add member rowlease_owner;
alter role rowlease_lock add member rowlease_producer;
alter role rowlease_lock add member rowlease_worker;
alter role rowlease_lock add member rowlease_operator;
alter role rowlease_lock add member rowlease_reader;
go
-- Routines that only other routines call.
if schema_id('rowlease_internal') is null execute ('create schema rowlease_internal');
-- One role owns both, so that routines reach tables and each other, whatever their caller may do.
alter authorization on schema::rowlease to rowlease_owner;
alter authorization on schema::rowlease_internal to rowlease_owner;
go
create table rowlease.QueueSettings (
  QueueName          nvarchar(100) collate Latin1_General_100_BIN2 not null,
  MaxPriority        smallint      not null default 9,
  Capacity           bigint        null,
  LeaseSeconds       int           not null default 30,
  MaxAttempts        int           not null default 5,
  MaxCrashes         int           not null default 3,
  RetryBaseMs        int           not null default 1000,
  RetryCapMs         int           not null default 3600000,
  Paused             bit           not null default 0,
  Policy             varchar(10)   collate Latin1_General_100_BIN2 not null default 'strict',
  PolicyWeights      nvarchar(max) null,
  PolicyAgingSeconds int           not null default 60,
  MaxInFlight        int           null,
  ConsumerPriorities bit           not null default 0,
  KeepHistory        bit           not null default 1,
  RetentionDays      int           not null default 7,
  UnknownKindSeconds int           not null default 600,
  Rate               varchar(30)   collate Latin1_General_100_BIN2 null,
  GroupRate          varchar(30)   collate Latin1_General_100_BIN2 null,
  constraint queue_settings_pkey primary key (QueueName),
  constraint queue_settings_name check (QueueName <> ''),
  constraint queue_settings_names_end_in_no_blank check (
    datalength(rtrim(QueueName)) = datalength(QueueName)),
  constraint queue_settings_max_priority check (MaxPriority between 0 and 255),
  constraint queue_settings_capacity check (Capacity > 0),
  constraint queue_settings_lease check (LeaseSeconds between 1 and 86400),
  constraint queue_settings_limits check (MaxAttempts >= 1 and MaxCrashes >= 1),
  constraint queue_settings_retry check (RetryBaseMs >= 0 and RetryCapMs >= RetryBaseMs),
  constraint queue_settings_policy check (Policy in ('strict', 'weighted', 'aging')),
  constraint queue_settings_aging check (PolicyAgingSeconds >= 1),
  constraint queue_settings_in_flight check (MaxInFlight >= 1),
  constraint queue_settings_retention check (RetentionDays >= 1),
  constraint queue_settings_unknown_kind check (UnknownKindSeconds >= 0),
  constraint queue_settings_rate check (Rate like '[1-9]%/[1-9]%[smhd]'),
  constraint queue_settings_group_rate check (GroupRate like '[1-9]%/[1-9]%[smhd]')
);
go
insert into rowlease.QueueSettings (QueueName) values (N'default');
go
-- The ids of requests, in Queue and in Lane.
create sequence rowlease.RequestIds as bigint start with 1 increment by 1 cache 1000;
go
-- Every request that waits or runs, and the dead letters.
create table rowlease.Queue (
  RequestId       bigint        not null default (next value for rowlease.RequestIds),
  QueueName       nvarchar(100) collate Latin1_General_100_BIN2 not null,
  Kind            nvarchar(200) collate Latin1_General_100_BIN2 not null,
  Status          varchar(10)   collate Latin1_General_100_BIN2 not null,
  Priority        smallint      not null,
  RequestedTime   datetime2(6)  not null,
  DueTime         datetime2(6)  not null,
  LockedBy        nvarchar(200) collate Latin1_General_100_BIN2 null,
  LockedTime      datetime2(6)  null,
  LockExpiresTime datetime2(6)  null,
  StartedTime     datetime2(6)  null,
  LockToken       bigint        not null default 0,
  NumAttempts     int           not null default 0,
  MaxAttempts     int           not null,
  NumCrashes      int           not null default 0,
  NumAbandons     int           not null default 0,
  RetryBaseMs     int           null,
  DedupKey        nvarchar(400) collate Latin1_General_100_BIN2 null,
  GroupKey        nvarchar(200) collate Latin1_General_100_BIN2 null,
  GroupBlocked    bit           not null default 0,
  Returned        bit           not null default 0,
  CancelRequested bit           not null default 0,
  LoadId          nvarchar(100) collate Latin1_General_100_BIN2 null,
  Payload         nvarchar(max) null,
  Headers         nvarchar(max) null,
  LastError       nvarchar(max) null,
  CompletionTime  datetime2(6)  null,
  constraint queue_pkey primary key clustered (RequestId)
    with (allow_page_locks = off, optimize_for_sequential_key = on),
  constraint queue_status check (Status in ('Scheduled', 'Pending', 'Processing', 'Failed')),
  constraint queue_lease_has_owner check (
    (Status = 'Processing' and LockedBy is not null) or (Status <> 'Processing' and LockedBy is null)),
  constraint queue_lease_is_whole check (
    Status <> 'Processing' or (LockedTime is not null and LockExpiresTime is not null
                               and LockToken >= 1 and NumAttempts >= 1)),
  constraint queue_only_a_lease_runs check (
    Status = 'Processing' or (StartedTime is null and CancelRequested = 0)),
  constraint queue_dead_letter_says_why check (
    (Status = 'Failed' and CompletionTime is not null and LastError is not null)
    or (Status <> 'Failed' and CompletionTime is null)),
  constraint queue_priority check (Priority between 0 and 255),
  constraint queue_counts check (
    MaxAttempts >= 1 and NumAttempts >= 0 and NumCrashes >= 0 and NumAbandons >= 0
    and LockToken >= 0 and coalesce(RetryBaseMs, 0) >= 0
    -- Once it was claimed, a number that was written by hand has room to grow.
    and NumAttempts < 1610612736 and NumCrashes < 1610612736 and NumAbandons < 1610612736
    and LockToken < 6917529027641081856
    and (LockedTime is not null
         or NumAttempts < 1073741824 and NumCrashes < 1073741824 and NumAbandons < 1073741824
            and LockToken < 4611686018427387904)),
  constraint queue_says_what check (Kind <> '' and Payload is not null),
  constraint queue_names_end_in_no_blank check (
    datalength(rtrim(Kind)) = datalength(Kind) and datalength(rtrim(DedupKey)) = datalength(DedupKey)
    and datalength(rtrim(GroupKey)) = datalength(GroupKey)),
  constraint queue_due check (DueTime <= '9999-12-31'),
  constraint queue_group check (GroupBlocked = 0 or GroupKey is not null),
  constraint queue_only_waiting_have_a_place check (
    Status in ('Scheduled', 'Pending') or (GroupBlocked = 0 and Returned = 0))
);
go
alter table rowlease.Queue set (lock_escalation = disable);
go
create index queue_pending on rowlease.Queue (QueueName, Priority desc, DueTime, RequestId)
  include (GroupKey, Status, GroupBlocked) where Status = 'Pending' and GroupBlocked = 0
  with (allow_page_locks = off);
go
create index queue_scheduled on rowlease.Queue (QueueName, DueTime)
  include (Status) where Status = 'Scheduled' with (allow_page_locks = off);
go
create index queue_declined on rowlease.Queue (QueueName, Kind, Priority desc, LockedTime, RequestId)
  include (GroupKey, Status, Returned) where Status = 'Scheduled' and Returned = 1
  with (allow_page_locks = off);
go
create index queue_expiring on rowlease.Queue (QueueName, LockExpiresTime)
  include (Status) where Status = 'Processing' with (allow_page_locks = off);
go
create index queue_failed on rowlease.Queue (QueueName, RequestId)
  include (Status) where Status = 'Failed' with (allow_page_locks = off);
go
create unique index queue_dedup on rowlease.Queue (QueueName, DedupKey)
  include (Status) where DedupKey is not null and Status <> 'Failed'
  with (allow_page_locks = off);
go
create index queue_group on rowlease.Queue (QueueName, GroupKey, RequestId)
  include (GroupBlocked, Status) where GroupKey is not null and Status <> 'Failed'
  with (allow_page_locks = off);
go
create unique index queue_group_in_flight on rowlease.Queue (QueueName, GroupKey)
  include (Status) where GroupKey is not null and Status = 'Processing'
  with (allow_page_locks = off);
go
-- The finished requests. `maintain` deletes old ones.
create table rowlease.QueueHistory (
  RequestId       bigint        not null,
  QueueName       nvarchar(100) collate Latin1_General_100_BIN2 not null,
  Kind            nvarchar(200) collate Latin1_General_100_BIN2 not null,
  Status          varchar(10)   collate Latin1_General_100_BIN2 not null,
  Priority        smallint      not null,
  RequestedTime   datetime2(6)  not null,
  DueTime         datetime2(6)  not null,
  LockedBy        nvarchar(200) collate Latin1_General_100_BIN2 null,
  LockedTime      datetime2(6)  null,
  LockExpiresTime datetime2(6)  null,
  StartedTime     datetime2(6)  null,
  LockToken       bigint        not null default 0,
  NumAttempts     int           not null default 0,
  MaxAttempts     int           not null,
  NumCrashes      int           not null default 0,
  NumAbandons     int           not null default 0,
  RetryBaseMs     int           null,
  DedupKey        nvarchar(400) collate Latin1_General_100_BIN2 null,
  GroupKey        nvarchar(200) collate Latin1_General_100_BIN2 null,
  GroupBlocked    bit           not null default 0,
  Returned        bit           not null default 0,
  CancelRequested bit           not null default 0,
  LoadId          nvarchar(100) collate Latin1_General_100_BIN2 null,
  Payload         nvarchar(max) null,
  Headers         nvarchar(max) null,
  LastError       nvarchar(max) null,
  CompletionTime  datetime2(6)  not null,
  Result          nvarchar(max) null
);
go
-- Rows come in and go out by completion time, so deleting old ones meets nobody.
create clustered index queue_history_completed on rowlease.QueueHistory (CompletionTime)
  with (allow_page_locks = off, optimize_for_sequential_key = on);
go
create index queue_history_request on rowlease.QueueHistory (RequestId)
  with (allow_page_locks = off);
go
alter table rowlease.QueueHistory set (lock_escalation = disable);
go
-- Attempts that did not complete their request: the newest ten of each.
create table rowlease.Attempt (
  RequestId     bigint        not null,
  LockToken     bigint        not null,
  AttemptNumber int           not null,
  WorkerId      nvarchar(200) collate Latin1_General_100_BIN2 not null,
  StartedTime   datetime2(6)  not null,
  EndedTime     datetime2(6)  not null,
  Outcome       varchar(10)   collate Latin1_General_100_BIN2 not null,
  Error         nvarchar(max) null,
  ErrorType     nvarchar(200) collate Latin1_General_100_BIN2 null,
  Traceback     nvarchar(max) null,
  ExpiresTime   datetime2(6)  not null,
  constraint attempt_pkey primary key clustered (RequestId, LockToken) with (allow_page_locks = off),
  constraint attempt_outcome check (Outcome in ('failed', 'lease_lost', 'abandoned', 'snoozed'))
);
go
create index attempt_expiring on rowlease.Attempt (ExpiresTime) with (allow_page_locks = off);
go
alter table rowlease.Attempt set (lock_escalation = disable);
go
-- The rows of loads, which are requests once their load is promoted; those of a load with keys, groups
-- or due times move to Queue then.
--
-- A bulk copy passes over CHECKs, so the trigger end_part has their conditions.
create table rowlease.Lane (
  RunNumber bigint        not null,
  Priority  smallint      not null,
  Part      bigint        not null,
  RequestId bigint        not null default (next value for rowlease.RequestIds),
  Kind      nvarchar(200) collate Latin1_General_100_BIN2 not null,
  Payload   nvarchar(max) not null,
  Headers   nvarchar(max) null,
  DueTime   datetime2(6)  null,
  DedupKey  nvarchar(400) collate Latin1_General_100_BIN2 null,
  GroupKey  nvarchar(200) collate Latin1_General_100_BIN2 null,
  constraint lane_pkey primary key clustered (RunNumber, Priority, Part, RequestId)
    with (allow_page_locks = off)
);
go
alter table rowlease.Lane set (lock_escalation = disable);
go
-- How many rows a part of a run has in the lane, by priority. Written with the rows, in one
-- transaction. promote sums them up, and need not read the lane.
create table rowlease.LanePart (
  RunNumber bigint   not null,
  Priority  smallint not null,
  Part      bigint   not null,
  NumRows   bigint   not null,
  FirstId   bigint   not null,
  LastId    bigint   not null,
  ToQueue   bit      not null default 0,
  constraint lane_part_pkey primary key clustered (RunNumber, Priority, Part)
    with (allow_page_locks = off),
  constraint lane_part_counts check (NumRows >= 1 and FirstId <= LastId)
);
go
create index lane_part_of_run on rowlease.LanePart (RunNumber, Part) with (allow_page_locks = off);
go
alter table rowlease.LanePart set (lock_escalation = disable);
go
create table rowlease.[Load] (
  LoadId        nvarchar(100) collate Latin1_General_100_BIN2 not null,
  QueueName     nvarchar(100) collate Latin1_General_100_BIN2 null,
  Status        varchar(10)   collate Latin1_General_100_BIN2 not null,
  [Columns]     nvarchar(max) collate Latin1_General_100_BIN2 null,
  StreamName    nvarchar(100) collate Latin1_General_100_BIN2 null,
  QueryId       nvarchar(100) collate Latin1_General_100_BIN2 null,
  BatchNumber   bigint        null,
  RunNumber     bigint        not null default 0,
  RunBy         nvarchar(500) collate Latin1_General_100_BIN2 not null default N'',
  PastRuns      nvarchar(max) collate Latin1_General_100_BIN2 not null default N'',
  NumRows       bigint        not null,
  NumStaged     bigint        not null default 0,
  NumEnqueued   bigint        not null default 0,
  NumDuplicates bigint        not null default 0,
  NumClamped    bigint        not null default 0,
  InLane        bit           not null default 0,
  Place         bigint        null,
  MaxAttempts   int           null,
  StartedTime   datetime2(6)  not null,
  ReportedTime  datetime2(6)  not null,
  PromotedTime  datetime2(6)  null,
  RowsPerSecond as
    cast(NumStaged * 1000.0 / nullif(datediff_big(millisecond, StartedTime, ReportedTime), 0) as float),
  constraint load_pkey primary key (LoadId),
  constraint load_names_end_in_no_blank check (datalength(rtrim(LoadId)) = datalength(LoadId)),
  constraint load_status check (Status in ('Staging', 'Ended', 'Promoted')),
  constraint load_promoted check (
    (Status = 'Promoted' and PromotedTime is not null)
    or (Status <> 'Promoted' and PromotedTime is null)),
  constraint load_in_lane check (
    InLane = 0 or (Status = 'Promoted' and Place is not null and MaxAttempts is not null)),
  constraint load_counts check (
    NumEnqueued >= 0 and NumDuplicates >= 0 and NumRows >= NumEnqueued)
);
go
-- Few loads are not promoted, but the table of all loads only grows.
create index load_staging on rowlease.[Load] (ReportedTime) where Status in ('Staging', 'Ended');
go
create index load_started on rowlease.[Load] (StartedTime);
go
create index load_stream on rowlease.[Load] (PromotedTime) where StreamName is not null and InLane = 0;
go
create index load_in_lane on rowlease.[Load] (QueueName) include (InLane) where InLane = 1;
go
-- Rows of the lane name their load by the number of its run.
create unique index load_run on rowlease.[Load] (RunNumber) where RunNumber > 0;
go
-- The streams: which batches each has enqueued. A row is kept until forget_stream, so that a batch is
-- enqueued once, however late it is repeated. Loads of streams are kept for the retention only.
create table rowlease.Stream (
  StreamName   nvarchar(100) collate Latin1_General_100_BIN2 not null,
  QueryId      nvarchar(100) collate Latin1_General_100_BIN2 null,
  BatchNumber  bigint        not null,
  PromotedTime datetime2(6)  not null,
  constraint stream_pkey primary key clustered (StreamName) with (allow_page_locks = off),
  constraint stream_names_end_in_no_blank check (datalength(rtrim(StreamName)) = datalength(StreamName))
);
go
alter table rowlease.Stream set (lock_escalation = disable);
go
create table rowlease.Schedule (
  ScheduleName    nvarchar(200) collate Latin1_General_100_BIN2 not null,
  Cron            nvarchar(200) collate Latin1_General_100_BIN2 not null,
  TimeZone        nvarchar(100) collate Latin1_General_100_BIN2 not null default 'UTC',
  QueueName       nvarchar(100) collate Latin1_General_100_BIN2 not null,
  Kind            nvarchar(200) collate Latin1_General_100_BIN2 not null,
  Payload         nvarchar(max) not null,
  Headers         nvarchar(max) null,
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
  constraint schedule_names_end_in_no_blank check (
    datalength(rtrim(ScheduleName)) = datalength(ScheduleName) and datalength(rtrim(Kind)) = datalength(Kind)),
  constraint schedule_cron check (Cron like '_% _% _% _% _%'),
  constraint schedule_time_zone check (TimeZone <> ''),
  constraint schedule_says_what check (Kind <> ''),
  constraint schedule_priority check (Priority between 0 and 255),
  constraint schedule_catch_up check (CatchUp between 1 and 1000),
  constraint schedule_lease_is_whole check (
    (LockedBy is null and LockExpiresTime is null
     or LockedBy is not null and LockExpiresTime is not null)
    and LockToken >= 0 and LockToken < 4611686018427387904)
);
go
create index schedule_planned on rowlease.Schedule (NextTime) where Paused = 0;
go
-- What running tasks have reported of their progress.
--
-- Apart from the queue and without a foreign key: requests that report nothing pay nothing.
create table rowlease.Progress (
  RequestId    bigint        not null,
  LockToken    bigint        not null,
  Fraction     float         not null,
  Note         nvarchar(400) not null,
  ReportedTime datetime2(6)  not null,
  constraint progress_pkey primary key (RequestId),
  constraint progress_fraction check (Fraction between 0 and 1)
);
go
create table rowlease.Worker (
  WorkerId         nvarchar(200) collate Latin1_General_100_BIN2 not null,
  Host             nvarchar(255) not null,
  Pid              int           not null,
  Version          nvarchar(50)  not null,
  QueueNames       nvarchar(max) not null,
  Kinds            nvarchar(max) null,
  Slots            int           not null,
  Busy             int           not null default 0,
  ConsumerPriority int           not null default 0,
  StartedTime      datetime2(6)  not null,
  HeartbeatTime    datetime2(6)  not null,
  constraint worker_pkey primary key (WorkerId)
);
go
-- A kind that no live worker of a queue knows, from the first request of it that was declined.
create table rowlease.UnknownKind (
  QueueName    nvarchar(100) collate Latin1_General_100_BIN2 not null,
  Kind         nvarchar(200) collate Latin1_General_100_BIN2 not null,
  UnknownSince datetime2(6)  not null,
  DeclinedTime datetime2(6)  not null,
  constraint unknown_kind_pkey primary key (QueueName, Kind)
);
go
create table rowlease.DeadLetterTask (
  QueueName nvarchar(100) collate Latin1_General_100_BIN2 not null,
  Kind      nvarchar(200) collate Latin1_General_100_BIN2 not null,
  TaskQueue nvarchar(100) collate Latin1_General_100_BIN2 not null,
  TaskKind  nvarchar(200) collate Latin1_General_100_BIN2 not null,
  constraint dead_letter_task_pkey primary key (QueueName, Kind)
);
go
create table rowlease.EnqueueReceipt (
  ReceiptKey   nvarchar(100) collate Latin1_General_100_BIN2 not null,
  RequestIds   nvarchar(max) not null,
  ReceivedTime datetime2(6)  not null,
  constraint enqueue_receipt_pkey primary key (ReceiptKey),
  constraint enqueue_receipt_names_end_in_no_blank check (
    datalength(rtrim(ReceiptKey)) = datalength(ReceiptKey))
);
go
create index enqueue_receipt_received on rowlease.EnqueueReceipt (ReceivedTime);
go
create table rowlease.QueueWaiter (
  WaiterId    bigint        identity(1, 1) not null,
  QueueName   nvarchar(100) collate Latin1_General_100_BIN2 not null,
  Priority    smallint      not null,
  NumRequests int           not null,
  ArrivedTime datetime2(6)  not null,
  ExpiresTime datetime2(6)  not null,
  constraint queue_waiter_pkey primary key (WaiterId)
);
go
-- What operators have done to requests, queues, schedules and loads. `maintain` drops a row 90 days
-- after its last step.
create table rowlease.Operation (
  OperationId   bigint        identity(1, 1) not null,
  Verb          varchar(20)   collate Latin1_General_100_BIN2 not null,
  Filter        nvarchar(max) not null,
  Arguments     nvarchar(max) not null,
  Actor         nvarchar(200) null,
  Login         nvarchar(200) not null,
  ClientAddress nvarchar(200) null,
  Application   nvarchar(200) not null,
  StartedTime   datetime2(6)  not null,
  LastTime      datetime2(6)  not null,
  NumRequests   bigint        not null default 0,
  After         bigint        null,
  FinishedTime  datetime2(6)  null,
  constraint operation_pkey primary key clustered (OperationId) with (allow_page_locks = off)
);
go
create index operation_last on rowlease.Operation (LastTime) with (allow_page_locks = off);
go
alter table rowlease.Operation set (lock_escalation = disable);
go
-- Which finished request a requeued one is a copy of. `maintain` drops a row with its operation.
create table rowlease.Requeued (
  RequestId    bigint not null,
  RequeuedFrom bigint not null,
  OperationId  bigint not null,
  constraint requeued_pkey primary key clustered (RequestId) with (allow_page_locks = off)
);
go
create index requeued_operation on rowlease.Requeued (OperationId) with (allow_page_locks = off);
go
alter table rowlease.Requeued set (lock_escalation = disable);
go
-- Who has cancelled a request; while it runs, its worker is asked to stop it. `maintain` drops a row with its
-- operation.
create table rowlease.Cancellation (
  RequestId   bigint        not null,
  OperationId bigint        not null,
  AskedTime   datetime2(6)  not null,
  AskedBy     nvarchar(200) not null,
  Kills       bit           not null,
  constraint cancellation_pkey primary key clustered (RequestId) with (allow_page_locks = off)
);
go
create index cancellation_operation on rowlease.Cancellation (OperationId) with (allow_page_locks = off);
go
alter table rowlease.Cancellation set (lock_escalation = disable);
go
-- How many requests of each status a queue has, as rows to add up: see the view DepthByPriority.
--
-- Each routine appends what it changed, in its own transaction: sums are exact, nobody waits for a
-- counter row. `maintain` folds many rows into few. A heap would never give deleted pages back.
create table rowlease.QueueDepth (
  DepthId     bigint        identity(1, 1) not null,  -- the key, without a meaning
  QueueName   nvarchar(100) collate Latin1_General_100_BIN2 not null,
  Priority    smallint      not null,
  Scheduled   bigint        not null default 0,
  Pending     bigint        not null default 0,
  Processing  bigint        not null default 0,
  Failed      bigint        not null default 0,
  NumFinished bigint        not null default 0,
  NumFailures bigint        not null default 0,
  LoadId      nvarchar(100) collate Latin1_General_100_BIN2 null,  -- the batch of the requests; null also where no batch gains or loses any
  constraint queue_depth_pkey primary key clustered (DepthId)
    with (allow_page_locks = off, optimize_for_sequential_key = on),
  -- Sums of some rows fit into a number.
  constraint queue_depth_counts check (
    abs(Scheduled) < 2305843009213693952 and abs(Pending) < 2305843009213693952
    and abs(Processing) < 2305843009213693952 and abs(Failed) < 2305843009213693952
    and abs(NumFinished) < 2305843009213693952 and abs(NumFailures) < 2305843009213693952)
);
go
alter table rowlease.QueueDepth set (lock_escalation = disable);
go
-- The totals of each queue when a day began, UTC. What was finished in a day is the difference to the
-- next row. `maintain` adds the rows of a day when it begins, and drops those of more than 90 days ago.
create table rowlease.QueueDay (
  QueueName   nvarchar(100) collate Latin1_General_100_BIN2 not null,
  Day         date          not null,
  NumFinished bigint        not null,
  NumFailures bigint        not null,
  NumFailed   bigint        not null,
  constraint queue_day_pkey primary key clustered (QueueName, Day)
);
go
-- The batches: requests that were enqueued under one id. A promoted load is one, too. Its requests
-- have its id as load_id.
--
-- Each routine appends its counts to queue_depth, and `maintain` adds them up here. So no transaction
-- waits for a counter, and requests without a batch pay nothing.
create table rowlease.Batch (
  BatchId      nvarchar(100) collate Latin1_General_100_BIN2 not null,  -- identifies the batch; of a load, its load_id
  NumRequests  bigint        not null default 0,
  NumLive      bigint        not null default 0,
  NumComplete  bigint        not null default 0,
  NumFailed    bigint        not null default 0,
  CreatedTime  datetime2(6)  not null,
  FinishedTime datetime2(6)  null,
  constraint batch_pkey primary key clustered (BatchId) with (allow_page_locks = off)
);
go
create index batch_created on rowlease.Batch (CreatedTime) with (allow_page_locks = off);
go
create index batch_idle on rowlease.Batch (BatchId) where NumLive = 0 and FinishedTime is null
  with (allow_page_locks = off);
go
create index batch_finished on rowlease.Batch (FinishedTime) where NumLive = 0 and NumFailed = 0
  with (allow_page_locks = off);
go
alter table rowlease.Batch set (lock_escalation = disable);
go
-- Scheduled requests that are due when a batch is finished.
create table rowlease.BatchWait (
  RequestId bigint        not null,
  BatchId   nvarchar(100) collate Latin1_General_100_BIN2 not null,
  constraint batch_wait_pkey primary key clustered (RequestId) with (allow_page_locks = off)
);
go
create index batch_wait_batch on rowlease.BatchWait (BatchId) with (allow_page_locks = off);
go
alter table rowlease.BatchWait set (lock_escalation = disable);
go
-- The starts of requests from queues with a rate: a row for each claim of a queue or a group.
create table rowlease.RateStart (
  QueueName   nvarchar(100) collate Latin1_General_100_BIN2 not null,
  RateKey     nvarchar(201) collate Latin1_General_100_BIN2 not null,
  StartedTime datetime2(6)  not null,
  Total       bigint        not null,
  NumStarts   int           not null,
  ExpiresTime datetime2(6)  not null,
  constraint rate_start_pkey primary key clustered (QueueName, RateKey, StartedTime, Total)
    with (allow_page_locks = off)
);
go
create index rate_start_expiring on rowlease.RateStart (ExpiresTime) with (allow_page_locks = off);
go
create index rate_start_started on rowlease.RateStart (StartedTime) with (allow_page_locks = off);
go
alter table rowlease.RateStart set (lock_escalation = disable);
go
-- The steps of `maintain` that fail: a row each, until the step succeeds.
create table rowlease.MaintainFailure (
  What        nvarchar(30)   collate Latin1_General_100_BIN2 not null,
  QueueName   nvarchar(100)  collate Latin1_General_100_BIN2 not null,
  Error       nvarchar(4000) not null,
  FailedSince datetime2(6)   not null,
  constraint maintain_failure_pkey primary key clustered (What, QueueName) with (allow_page_locks = off)
);
go
alter table rowlease.MaintainFailure set (lock_escalation = disable);
go
create table rowlease.SchemaInfo (
  OldestClient nvarchar(32) collate Latin1_General_100_BIN2 not null,
  Release      nvarchar(50) not null,
  RoutinesHash nvarchar(64) not null,
  AppliedTime  datetime2(6) not null
);
