-- The tables of rowlease on PostgreSQL. Routines, views and grants are in sql/postgresql.

-- The owner of every object, and one role for each kind of user. Roles belong to the server, not
-- to the database: another database may have made them.
do $$
declare
  v_role text;
begin
  foreach v_role in array array['rowlease_owner', 'rowlease_producer', 'rowlease_worker',
                                'rowlease_operator', 'rowlease_reader']
  loop
    begin
      if to_regrole(v_role) is null then
        execute format('create role %I nologin', v_role);
      end if;
    exception when duplicate_object or unique_violation then
      null;  -- another database's migration made it at the same moment
    end;
  end loop;
  if not pg_has_role('rowlease_owner', 'usage') then
    grant rowlease_owner to current_user;
  end if;
end $$;

-- Routines that only other routines call.
create schema rowlease_internal;

-- The queues and their settings. A queue exists while it has a row here. configure_queue changes them.
create table rowlease.queue_settings (
  queue_name           varchar(100) not null,                -- the queue
  max_priority         smallint     not null default 9,      -- the largest priority; larger values are clamped to it
  capacity             bigint,                               -- how many requests may wait; null: no limit
  lease_seconds        integer      not null default 30,     -- how long a lease lasts unless it is renewed
  max_attempts         integer      not null default 5,      -- attempts before a request becomes a dead letter
  max_crashes          integer      not null default 3,      -- crashes before a request becomes a dead letter
  retry_base_ms        integer      not null default 1000,   -- the first back-off; it doubles with each attempt
  retry_cap_ms         integer      not null default 3600000,  -- the longest back-off
  paused               boolean      not null default false,  -- nothing is claimed
  policy               varchar(10)  not null default 'strict',  -- order of claims: strict, weighted or aging
  policy_weights       json,                                 -- weighted: a JSON array; null: priority + 1
  policy_aging_seconds integer      not null default 60,     -- aging: this much waiting counts as one priority
  max_in_flight        integer,                              -- how many may run at once; null: no limit
  consumer_priorities  boolean      not null default false,  -- a worker has had a consumer priority other than 0
  keep_history         boolean      not null default true,   -- false: history has no payloads and results
  retention_days       integer      not null default 7,      -- how long history is kept, at least
  unknown_kind_seconds integer      not null default 600,    -- an unknown kind is failed after this time
  rate                 varchar(30),                          -- how many may start in a period, as 100/1m; null: no limit
  group_rate           varchar(30),                          -- the same for each group
  constraint queue_settings_pkey primary key (queue_name),
  constraint queue_settings_name check (queue_name <> ''),
  constraint names_end_in_no_blank check (queue_name not like '% '),
  constraint queue_settings_max_priority check (max_priority between 0 and 255),
  constraint queue_settings_capacity check (capacity > 0),
  constraint queue_settings_lease check (lease_seconds between 1 and 86400),
  constraint queue_settings_limits check (max_attempts >= 1 and max_crashes >= 1),
  constraint queue_settings_retry check (retry_base_ms >= 0 and retry_cap_ms >= retry_base_ms),
  constraint queue_settings_policy check (policy = any('{strict,weighted,aging}'::text[])),
  constraint queue_settings_aging check (policy_aging_seconds >= 1),
  constraint queue_settings_in_flight check (max_in_flight >= 1),
  constraint queue_settings_retention check (retention_days >= 1),
  constraint queue_settings_unknown_kind check (unknown_kind_seconds >= 0),
  constraint queue_settings_rate check (rate ~ '^[1-9]\d{0,6}/([1-9]\d{0,6}(ms|s|m)|[1-9]\d{0,4}h|[1-9]\d{0,3}d)$'),
  constraint queue_settings_group_rate check (group_rate ~ '^[1-9]\d{0,6}/([1-9]\d{0,6}(ms|s|m)|[1-9]\d{0,4}h|[1-9]\d{0,3}d)$')
);
-- Few queues keep no history; `complete` looks only at those.
create index queue_settings_forgetful on rowlease.queue_settings (queue_name) where not keep_history;
insert into rowlease.queue_settings (queue_name) values ('default');

-- Every request that waits or runs, and the dead letters.
--
-- Lengths are bounded because index keys hold these texts, and SQL Server allows 1,700 bytes a key.
-- The index queue_illegal refuses rows that break a rule. Columns of fixed width that are never null
-- come first: an update compares all columns of indexes, and finds these without reading the others.
create table rowlease.queue (
  request_id        bigint       not null generated always as identity,  -- identifies the request, also in the history
  lock_token        bigint       not null default 0,  -- names the last claim; larger at every claim; 0: none yet
  requested_time    timestamptz  not null,            -- when it was enqueued
  due_time          timestamptz  not null,            -- not claimed before; also set by a retry's back-off
  num_attempts      integer      not null default 0,  -- attempts so far, counted at the claim
  max_attempts      integer      not null,            -- attempts before it becomes a dead letter
  num_crashes       integer      not null default 0,  -- leases that ran out after the task had started
  num_abandons      integer      not null default 0,  -- leases given up in a row; the tenth counts as an attempt
  priority          smallint     not null,            -- larger is more urgent
  group_blocked     boolean      not null default false,  -- an earlier request of its group is not finished
  returned          boolean      not null default false,  -- it waits again after a claim; Scheduled: it was declined
  cancel_requested  boolean      not null default false,  -- its worker is asked to stop it
  queue_name        varchar(100) not null,            -- the queue
  status            varchar(10)  not null,            -- Scheduled, Pending, Processing, Failed; in the history Complete, Cancelled
  kind              varchar(200) not null,            -- the name of the task
  locked_by         varchar(200),                     -- the worker that holds the lease; in the history the last one
  locked_time       timestamptz,                      -- when it was claimed; once declined: when it was due
  lock_expires_time timestamptz,                      -- when the lease ends unless it is renewed
  started_time      timestamptz,                      -- when its task began to run
  completion_time   timestamptz,                      -- when it was finished, or became a dead letter
  retry_base_ms     integer,                          -- the task's first back-off; null: the queue's
  group_key         varchar(200),                     -- requests of a group run one at a time, in order
  dedup_key         varchar(400),                     -- at most one live request of the queue has it
  load_id           varchar(100),                     -- the load that it came with
  payload           json,                             -- the arguments, JSON
  headers           json,                             -- values that travel beside the payload: a JSON object of strings
  last_error        text,                             -- of the last failed attempt
  constraint queue_pkey primary key (request_id)
) with (
  -- Every claim rewrites the row; free room in the page keeps the new version near the old.
  fillfactor = 85,
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.1
);
create index queue_pending on rowlease.queue (queue_name, priority desc, due_time, request_id)
  where status = 'Pending' and not group_blocked and not returned;
create index queue_returned on rowlease.queue (queue_name, priority desc, due_time, request_id)
  where status = 'Pending' and not group_blocked and returned;
create index queue_scheduled on rowlease.queue (queue_name, due_time)
  where status = 'Scheduled';
-- For declined requests, with a condition for which the planner can use no other index.
create index queue_declined on rowlease.queue (queue_name, kind, priority desc, locked_time, request_id)
  where returned and status <> 'Pending';
create index queue_expiring on rowlease.queue (queue_name, lock_expires_time)
  where status = 'Processing';
create index queue_failed on rowlease.queue (queue_name, request_id)
  where status = 'Failed';
create unique index queue_dedup on rowlease.queue (queue_name, dedup_key)
  where dedup_key is not null and status <> 'Failed';
create index queue_group on rowlease.queue (queue_name, group_key, request_id)
  where group_key is not null and status <> 'Failed';
create unique index queue_group_in_flight on rowlease.queue (queue_name, group_key)
  where group_key is not null and status = 'Processing';

-- The rules of a row of `queue`, by name. The cast of a name to this domain is an error, whose
-- constraint has that name.
create domain rowlease_internal.queue_rule as text
  constraint names_end_in_no_blank check (value <> 'names_end_in_no_blank')
  constraint queue_counts check (value <> 'queue_counts')
  constraint queue_dead_letter_says_why check (value <> 'queue_dead_letter_says_why')
  constraint queue_due check (value <> 'queue_due')
  constraint queue_group check (value <> 'queue_group')
  constraint queue_lease_has_owner check (value <> 'queue_lease_has_owner')
  constraint queue_lease_is_whole check (value <> 'queue_lease_is_whole')
  constraint queue_only_a_lease_runs check (value <> 'queue_only_a_lease_runs')
  constraint queue_only_waiting_have_a_place check (value <> 'queue_only_waiting_have_a_place')
  constraint queue_priority check (value <> 'queue_priority')
  constraint queue_says_what check (value <> 'queue_says_what')
  constraint queue_status check (value <> 'queue_status');
-- An index that is always empty, because its condition is an error for a row that breaks a rule.
--
-- It does the work of CHECK constraints. PostgreSQL parses the CHECKs of a table again in each
-- statement that writes a row; it keeps the conditions of indexes parsed (decision 84). As in a
-- CHECK, a rule that is null holds. A lease has an owner, so most rules test for the owner and not
-- for the status, and `least` ignores nulls.
create index queue_illegal on rowlease.queue (request_id) where (
  case
    when not (kind not like '% ' and dedup_key not like '% ' and group_key not like '% ')
      then 'names_end_in_no_blank'
    when not (least(max_attempts - 1, num_attempts, num_crashes, num_abandons, retry_base_ms) >= 0
              and lock_token >= 0
              -- Once it was claimed, a number that was written by hand has room to grow.
              and greatest(num_attempts, num_crashes, num_abandons)
                  < case when locked_time is null then 1073741824 else 1610612736 end
              and lock_token < case when locked_time is null then 4611686018427387904
                                    else 6917529027641081856 end) then 'queue_counts'
    when not ((status = 'Failed') = (completion_time is not null)
              and (completion_time is null or last_error is not null))
      then 'queue_dead_letter_says_why'
    -- Nor 'infinity', which no client's calendar holds.
    when not (due_time >= '0001-01-01 00:00+00' and due_time <= '9999-12-31 00:00+00')
      then 'queue_due'
    when not (not group_blocked or group_key is not null) then 'queue_group'
    when not ((status = 'Processing') = (locked_by is not null)) then 'queue_lease_has_owner'
    when not (locked_by is null or (locked_time is not null and lock_expires_time is not null
                                    and lock_token >= 1 and num_attempts >= 1))
      then 'queue_lease_is_whole'
    when not (locked_by is not null or (started_time is null and not cancel_requested))
      then 'queue_only_a_lease_runs'
    when not ((locked_by is null and completion_time is null) or not (group_blocked or returned))
      then 'queue_only_waiting_have_a_place'
    when not (priority >= 0 and priority <= 255) then 'queue_priority'
    when not (kind <> '' and payload is not null) then 'queue_says_what'
    when not (status = any('{Scheduled,Pending,Processing,Failed}'::text[])) then 'queue_status'
  end::rowlease_internal.queue_rule is not null);

-- The finished requests, by day: `maintain` makes the partitions and drops old ones.
--
-- Only routines write here, from rows of `queue` and its rules, so it has no rules of its own.
create table rowlease.queue_history (
  request_id        bigint       not null,
  lock_token        bigint       not null default 0,
  requested_time    timestamptz  not null,
  due_time          timestamptz  not null,
  num_attempts      integer      not null default 0,
  max_attempts      integer      not null,
  num_crashes       integer      not null default 0,
  num_abandons      integer      not null default 0,
  priority          smallint     not null,
  group_blocked     boolean      not null default false,
  returned          boolean      not null default false,
  cancel_requested  boolean      not null default false,
  queue_name        varchar(100) not null,
  status            varchar(10)  not null,
  kind              varchar(200) not null,
  locked_by         varchar(200),
  locked_time       timestamptz,
  lock_expires_time timestamptz,
  started_time      timestamptz,
  completion_time   timestamptz  not null,
  retry_base_ms     integer,
  group_key         varchar(200),
  dedup_key         varchar(400),
  load_id           varchar(100),
  payload           json,
  headers           json,
  last_error        text,
  result            json  -- what the task returned, JSON
) partition by range (completion_time);
create index queue_history_request on rowlease.queue_history (request_id);
-- For the last hour. Rows come in by completion time, so a summary of each 128 pages finds them.
create index queue_history_completed on rowlease.queue_history using brin (completion_time)
  with (autosummarize = on);
-- Finished requests of days without a partition of their own.
create table rowlease.queue_history_default partition of rowlease.queue_history default;

-- Attempts that did not complete their request: the newest ten of each.
--
-- They are not in `queue`, so that neither a claim nor a completion carries a traceback. A request
-- that completes at its first attempt writes nothing here. At expires_time, `maintain` looks whether
-- the request is still in `queue` or in its history.
create table rowlease.attempt (
  request_id     bigint       not null,  -- the request
  lock_token     bigint       not null,  -- the lease's
  attempt_number integer      not null,  -- from 1; a requeued request counts from 1 again
  worker_id      varchar(200) not null,  -- the worker that had the lease
  started_time   timestamptz  not null,  -- the claim, or the start that the worker reported
  ended_time     timestamptz  not null,  -- the end of the attempt
  outcome        varchar(10)  not null,  -- failed, lease_lost, abandoned or snoozed
  error          text,                   -- the first 2,000 characters; of a snooze, its reason
  error_type     varchar(200),           -- the exception's class
  traceback      text,                   -- the last 6,000 characters
  expires_time   timestamptz  not null,  -- when `maintain` looks whether it is still needed
  constraint attempt_pkey primary key (request_id, lock_token),
  constraint attempt_outcome check (outcome = any('{failed,lease_lost,abandoned,snoozed}'::text[]))
);
create index attempt_expiring on rowlease.attempt (expires_time);

-- The rows of loads. They are requests that wait as soon as their load is promoted, and move to
-- `queue` when they are claimed; those of a load with keys, groups or due times move when it is
-- promoted. Lean, because each row of a load pays for each column that is not null. The key is the
-- order of claims inside a part of a load.
create table rowlease.lane (
  run_number bigint       not null,
  priority   smallint     not null,
  writer     integer      not null default (txid_current() & 2147483647)::integer,  -- the transaction that wrote it: 31 bits of its id
  part       bigint       not null,  -- the part of the run: the rows of one attempt of a Spark task
  request_id bigint       not null default nextval('rowlease.queue_request_id_seq'),
  kind       varchar(200) not null,
  payload    json         not null,
  headers    json,
  ends_part  boolean,  -- true in one row of each part; see end_part
  due_time   timestamptz,
  dedup_key  varchar(400),
  group_key  varchar(200),
  -- 16 bytes: with a wider key, PostgreSQL leaves the pages of a B-tree that grows in its middle half
  -- empty. A transaction usually writes one part, so run and part need not be in the key.
  constraint lane_pkey primary key (writer, priority, request_id),
  constraint lane_priority check (priority between 0 and 255),
  constraint lane_kind check (kind <> ''),
  constraint lane_due check (due_time >= '0001-01-01 00:00+00' and due_time <= '9999-12-31 00:00+00'),
  constraint names_end_in_no_blank check (
    kind not like '% ' and dedup_key not like '% ' and group_key not like '% '),
  constraint lane_payload check (octet_length(payload::text) <= 1048576),
  constraint lane_payload_object check (  -- as are_arguments
    json_typeof(payload) = 'object'
    and (strpos(payload::text, '\') = 0
         or regexp_replace(replace(payload::text, '\\', '  '),
                           '\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]', ' ', 'g') !~ '\\u[dD][89a-fA-F]')),
  constraint lane_headers check (  -- as check_headers
    octet_length(headers::text) <= 8192 and json_typeof(headers) = 'object'
    and not jsonb_path_exists(headers::jsonb, '$.* ? (@.type() <> "string")'))
) with (
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0
);

-- How many rows a part of a run has in the lane, by priority. Written with the rows, in one
-- transaction. promote sums them up, and need not read the lane. A row of the lane belongs to a part
-- if the part's transaction wrote it, and its id is between the first and the last one. No other row
-- of the lane ever becomes a request.
create table rowlease.lane_part (
  run_number bigint   not null,
  priority   smallint not null,
  part       bigint   not null,
  writer     integer  not null,  -- the transaction that wrote and ended the part
  num_rows   bigint   not null,  -- how many rows it has
  first_id   bigint   not null,  -- its smallest request_id
  last_id    bigint   not null,  -- its largest request_id
  to_queue   boolean  not null default false,  -- a row has a key, a group or a due time: promote moves the load
  constraint lane_part_pkey primary key (run_number, priority, part),
  constraint lane_part_counts check (num_rows >= 1 and first_id <= last_id)
);

-- The loads: bulk enqueues with an id, staging or promoted.
create table rowlease.load (
  load_id         varchar(100) not null,              -- identifies the load
  queue_name      varchar(100),                       -- where it goes; null: rows may be staged before it is named
  status          varchar(10)  not null,              -- Staging, Promoted, or Ended: its job failed or was cancelled
  columns         text,                               -- the columns that its rows have
  stream_name     varchar(100),                       -- the stream of which it is a batch; null: none
  query_id        varchar(100),                       -- the streaming query of that batch; null: not known
  batch_number    bigint,                             -- the number of that batch
  run_number      bigint       not null default 0,    -- the last run; a fencing token
  run_by          text         not null default '',   -- who began that run
  past_runs       text         not null default '',   -- who began earlier runs
  num_rows        bigint       not null,              -- how many rows it has
  num_staged      bigint       not null default 0,    -- rows that were reported as written
  num_enqueued    bigint       not null default 0,    -- requests that it has become
  num_duplicates  bigint       not null default 0,    -- rows left out: a live request has the dedup key
  num_clamped     bigint       not null default 0,    -- requests whose priority was lowered to the maximum
  in_lane         boolean      not null default false,  -- promoted, and rows of it may be in the lane
  place           bigint,                             -- a request_id: its place among requests that are due at once
  max_attempts    integer,                            -- of its requests in the lane
  started_time    timestamptz  not null,              -- when its first run began
  reported_time   timestamptz  not null,              -- when its run last reported progress
  promoted_time   timestamptz,                        -- when its rows became requests
  rows_per_second double precision generated always as (  -- staged, since it was started
    num_staged / nullif(extract(epoch from reported_time - started_time), 0)) stored,
  constraint load_pkey primary key (load_id),
  constraint names_end_in_no_blank check (load_id not like '% '),
  constraint load_status check (status = any('{Staging,Ended,Promoted}'::text[])),
  constraint load_promoted check ((status = 'Promoted') = (promoted_time is not null)),
  constraint load_in_lane check (
    not in_lane or (status = 'Promoted' and place is not null and max_attempts is not null)),
  constraint load_counts check (
    num_enqueued >= 0 and num_duplicates >= 0 and num_rows >= num_enqueued)
);
-- Few loads are not promoted, but the table of all loads only grows.
create index load_staging on rowlease.load (reported_time) where status <> 'Promoted';
create index load_started on rowlease.load (started_time);
create index load_stream on rowlease.load (promoted_time)
  where stream_name is not null and not in_lane;
create index load_in_lane on rowlease.load (queue_name) where in_lane;
create unique index load_live_run on rowlease.load (run_number) where status = 'Staging' or in_lane;

-- The streams: which batches each has enqueued. A row is kept until forget_stream, so that a batch is
-- enqueued once, however late it is repeated. Loads of streams are kept for the retention only.
create table rowlease.stream (
  stream_name   varchar(100) not null,  -- the stream
  query_id      varchar(100),           -- the streaming query, as its checkpoint names it; null: not known
  batch_number  bigint       not null,  -- the last batch that was enqueued; earlier ones were, too
  promoted_time timestamptz  not null,  -- when that batch was enqueued
  constraint stream_pkey primary key (stream_name),
  constraint names_end_in_no_blank check (stream_name not like '% ')
);

-- The schedules. put_schedule changes them; workers fire them.
create table rowlease.schedule (
  schedule_name     varchar(200) not null,                 -- the schedule; of a task's own, the task's name
  cron              varchar(200) not null,                 -- five fields, as of cron
  time_zone         varchar(100) not null default 'UTC',   -- an IANA name, in which cron is read
  queue_name        varchar(100) not null,                 -- where its requests go
  kind              varchar(200) not null,                 -- the task of its requests
  payload           json         not null,                 -- the arguments of its requests, JSON
  headers           json,                                  -- of its requests
  priority          smallint     not null default 0,       -- of its requests
  catch_up          integer      not null default 1,       -- how many missed firings are enqueued late
  paused            boolean      not null default false,   -- it does not fire
  next_time         timestamptz,                           -- the next firing; null: not planned since changed_time
  last_time         timestamptz,                           -- the last firing that was enqueued
  last_request_id   bigint,                                -- the request of that firing
  changed_time      timestamptz  not null,                 -- when it was created, changed or resumed
  locked_by         varchar(200),                          -- the worker that is about to fire it
  lock_expires_time timestamptz,                           -- when another worker may fire it
  lock_token        bigint       not null default 0,       -- names the last lease of it
  constraint schedule_pkey primary key (schedule_name),
  constraint schedule_says_its_name check (schedule_name <> ''),
  constraint names_end_in_no_blank check (schedule_name not like '% ' and kind not like '% '),
  constraint schedule_cron check (cron like '_% _% _% _% _%'),
  constraint schedule_time_zone check (time_zone <> ''),
  constraint schedule_says_what check (kind <> ''),
  constraint schedule_priority check (priority between 0 and 255),
  constraint schedule_catch_up check (catch_up between 1 and 1000),
  constraint schedule_lease_is_whole check (
    (locked_by is null) = (lock_expires_time is null)
    and lock_token >= 0 and lock_token < 4611686018427387904)
);
create index schedule_planned on rowlease.schedule (next_time) where not paused;

-- What running tasks have reported of their progress.
--
-- Apart from the queue and without a foreign key: requests that report nothing pay nothing.
create table rowlease.progress (
  request_id    bigint           not null,  -- the request that runs
  lock_token    bigint           not null,  -- the claim that reported
  fraction      double precision not null,  -- how much is done, 0 to 1
  note          varchar(400)     not null,  -- the task's own text
  reported_time timestamptz      not null,  -- when it was reported
  constraint progress_pkey primary key (request_id),
  constraint progress_fraction check (fraction between 0 and 1)
);

-- The workers. A row goes when its worker drains, or an hour after its last heartbeat.
create table rowlease.worker (
  worker_id         varchar(200) not null,            -- the worker; leases name it in locked_by
  host              varchar(255) not null,            -- where it runs
  pid               integer      not null,            -- its process on that host
  version           varchar(50)  not null,            -- of rowlease
  queue_names       json         not null,            -- the queues it claims from, a JSON array
  kinds             json,                             -- the task of each kind it knows, a JSON object; null: it takes any kind
  slots             integer      not null,            -- how many tasks run in it at a time
  busy              integer      not null default 0,  -- slots that ran tasks at its last heartbeat
  consumer_priority integer      not null default 0,  -- workers with the larger one are served first
  started_time      timestamptz  not null,            -- when it registered
  heartbeat_time    timestamptz  not null,            -- when it was last alive; live: within 30 s
  constraint worker_pkey primary key (worker_id)
);

-- A kind that no live worker of a queue knows, from the first request of it that was declined.
create table rowlease.unknown_kind (
  queue_name    varchar(100) not null,
  kind          varchar(200) not null,  -- the kind that no live worker of the queue knows
  unknown_since timestamptz  not null,  -- when a worker first declined a request of it
  declined_time timestamptz  not null,  -- when a worker last declined one
  constraint unknown_kind_pkey primary key (queue_name, kind)
);

-- The tasks that run when a request has become a dead letter. Workers write them when they start.
create table rowlease.dead_letter_task (
  queue_name varchar(100) not null,  -- the queue of the dead letter
  kind       varchar(200) not null,  -- the kind of the dead letter
  task_queue varchar(100) not null,  -- where the request for the task goes
  task_kind  varchar(200) not null,  -- its kind
  constraint dead_letter_task_pkey primary key (queue_name, kind)
);

-- Which requests an enqueue call with a receipt made, so that a repeated call makes no more.
create table rowlease.enqueue_receipt (
  receipt_key   varchar(100) not null,  -- the key that the producer gave
  request_ids   bigint[]     not null,  -- the requests of that call, in its order
  received_time timestamptz  not null,  -- when the call was made
  constraint enqueue_receipt_pkey primary key (receipt_key),
  constraint names_end_in_no_blank check (receipt_key not like '% ')
);
create index enqueue_receipt_received on rowlease.enqueue_receipt (received_time);

-- Producers that wait for room in a full queue.
create table rowlease.queue_waiter (
  waiter_id    bigint       not null generated always as identity,  -- the place in line
  queue_name   varchar(100) not null,
  priority     smallint     not null,                 -- the largest of the requests
  num_requests integer      not null,                 -- how many requests it wants to enqueue
  arrived_time timestamptz  not null,                 -- when it began to wait
  expires_time timestamptz  not null,                 -- when its place is lost unless it asks again
  constraint queue_waiter_pkey primary key (waiter_id)
);

-- What operators have done to requests, queues, schedules and loads. `maintain` drops a row 90 days
-- after its last step.
create table rowlease.operation (
  operation_id   bigint       not null generated always as identity,  -- identifies the operation
  verb           varchar(20)  not null,            -- what was done: cancel, requeue, pause and others
  filter         jsonb        not null,            -- to which requests, queue, schedule or load
  arguments      jsonb        not null,            -- what else was given, such as a priority or settings
  actor          varchar(200),                     -- who did it, as the caller says
  login          varchar(200) not null,            -- the database user of the session
  client_address varchar(200),                     -- the address of the client; null: the server's own host
  application    varchar(200) not null,            -- the name that the client gave itself
  started_time   timestamptz  not null,            -- when its first step was done
  last_time      timestamptz  not null,            -- when its last step was done
  num_requests   bigint       not null default 0,  -- how many requests were changed so far
  after          bigint,                           -- the next step looks below this request
  finished_time  timestamptz,                      -- when nothing was left to do; null: it can be resumed
  constraint operation_pkey primary key (operation_id)
);
create index operation_last on rowlease.operation (last_time);

-- Which finished request a requeued one is a copy of. `maintain` drops a row with its operation.
create table rowlease.requeued (
  request_id    bigint not null,  -- the new request
  requeued_from bigint not null,  -- the finished request
  operation_id  bigint not null,  -- the operation that requeued it
  constraint requeued_pkey primary key (request_id)
);
create index requeued_operation on rowlease.requeued (operation_id);

-- Who has cancelled a request; while it runs, its worker is asked to stop it. `maintain` drops a row with its
-- operation.
create table rowlease.cancellation (
  request_id   bigint       not null,  -- the request
  operation_id bigint       not null,  -- the operation; the last one, if there are several
  asked_time   timestamptz  not null,  -- when
  asked_by     varchar(200) not null,  -- the operation's actor; without one, its login
  kills        boolean      not null,  -- its worker ends its task at once
  constraint cancellation_pkey primary key (request_id)
);
create index cancellation_operation on rowlease.cancellation (operation_id);

-- How many requests of each status a queue has, as rows to add up: see the view depth_by_priority.
--
-- Each routine appends what it changed, in its own transaction: sums are exact, and no routine
-- waits for a counter row. `maintain` folds many rows into few.
create table rowlease.queue_depth (
  queue_name   varchar(100) not null,
  priority     smallint     not null,
  scheduled    bigint       not null default 0,  -- added to the count of status Scheduled
  pending      bigint       not null default 0,  -- added to the count of status Pending
  processing   bigint       not null default 0,  -- added to the count of status Processing
  failed       bigint       not null default 0,  -- added to the count of status Failed
  num_finished bigint       not null default 0,  -- requests finished; only its sum over rows counts
  num_failures bigint       not null default 0,  -- attempts failed; only its sum over rows counts
  load_id      varchar(100)                      -- the batch of the requests; null also where no batch gains or loses any
) with (
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0
);

-- The totals of each queue when a day began, UTC. What was finished in a day is the difference to the
-- next row. `maintain` adds the rows of a day when it begins, and drops those of more than 90 days ago.
create table rowlease.queue_day (
  queue_name   varchar(100) not null,
  day          date         not null,  -- the day, UTC
  num_finished bigint       not null,  -- requests finished before it
  num_failures bigint       not null,  -- attempts failed before it
  num_failed   bigint       not null,  -- dead letters when it began
  constraint queue_day_pkey primary key (queue_name, day)
);

-- Rows to lock. Unlike an advisory lock, a row can be locked only with a right on its table. A
-- claim locks its queue's row where the queue has a limit in flight; `maintain` and `recount` lock
-- the row without a name.
create table rowlease.gate (
  queue_name varchar(100) not null,
  constraint gate_pkey primary key (queue_name)
);
insert into rowlease.gate (queue_name) values ('default'), ('');

-- The starts of requests from queues with a rate: a row for each claim of a queue or a group.
create table rowlease.rate_start (
  queue_name   varchar(100) not null,
  rate_key     varchar(201) not null,  -- empty: of the queue; else a colon and the group
  started_time timestamptz  not null,  -- when the requests were claimed
  total        bigint       not null,  -- starts up to this row; only differences count
  num_starts   integer      not null,  -- how many requests it has started
  expires_time timestamptz  not null,  -- when it has left the period
  constraint rate_start_pkey primary key (queue_name, rate_key, started_time, total)
);
create index rate_start_expiring on rowlease.rate_start (expires_time);
create index rate_start_started on rowlease.rate_start (started_time);

-- The batches: requests that were enqueued under one id. A promoted load is one, too. Its requests
-- have its id as load_id.
--
-- Each routine appends its counts to queue_depth, and `maintain` adds them up here. So no transaction
-- waits for a counter, and requests without a batch pay nothing.
create table rowlease.batch (
  batch_id      varchar(100) not null,            -- identifies the batch; of a load, its load_id
  num_requests  bigint       not null default 0,  -- how many were enqueued
  num_live      bigint       not null default 0,  -- of them, how many wait or run
  num_complete  bigint       not null default 0,  -- of them, how many are complete
  num_failed    bigint       not null default 0,  -- of them, how many are dead letters
  created_time  timestamptz  not null,            -- when its first requests were enqueued
  finished_time timestamptz,                      -- when none of its requests waited or ran any more
  constraint batch_pkey primary key (batch_id),
  constraint names_end_in_no_blank check (batch_id not like '% ')
);
create index batch_created on rowlease.batch (created_time);
create index batch_idle on rowlease.batch (batch_id) where num_live = 0 and finished_time is null;
create index batch_finished on rowlease.batch (finished_time) where num_live = 0 and num_failed = 0;

-- Scheduled requests that are due when a batch is finished.
create table rowlease.batch_wait (
  request_id bigint       not null,  -- the request that waits
  batch_id   varchar(100) not null,  -- the batch that it waits for
  constraint batch_wait_pkey primary key (request_id)
);
create index batch_wait_batch on rowlease.batch_wait (batch_id);

-- The steps of `maintain` that fail: a row each, until the step succeeds.
create table rowlease.maintain_failure (
  what         varchar(30)  not null,  -- what the step does
  queue_name   varchar(100) not null,  -- of a step that works queue by queue; else empty
  error        text         not null,  -- the text of its last error
  failed_since timestamptz  not null,  -- when it first failed
  constraint maintain_failure_pkey primary key (what, queue_name)
);

-- The release of the schema: one row, which `rowlease migrate` writes.
create table rowlease.schema_info (
  oldest_client varchar(32) not null,  -- the revision of the oldest release that works with this one
  release       varchar(50) not null,  -- whose routines these are
  routines_hash varchar(64) not null,  -- the fingerprint of its routines
  applied_time  timestamptz not null   -- when it was migrated
);

-- Logical replication refuses updates and deletes on a published table without a key. These three
-- have none, so all their columns identify a row, as in the daily partitions of the history.
alter table rowlease.queue_depth replica identity full;
alter table rowlease.queue_history_default replica identity full;
alter table rowlease.schema_info replica identity full;
