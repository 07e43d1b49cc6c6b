-- sample_requests: sample the first requests of a queue in each of its indexes.
-- params:   p_queue_name nvarchar(400), p_limit int -- the number of requests to read from each
--           index
-- returns:  priority smallint, status varchar(10), request_id bigint
-- why:      no index covers a whole queue, because every request would pay for it; the partial
--           indexes together cover the queue.
create or alter function rowlease_internal.sample_requests(
  @p_queue_name nvarchar(400), @p_limit int
) returns table
as
return
  select p.Priority as priority, p.Status as status, p.RequestId as request_id
    from (select top (@p_limit) q.Priority, q.Status, q.RequestId from rowlease.Queue as q
           where q.QueueName = @p_queue_name and q.Status = 'Pending' and q.GroupBlocked = 0) as p
  union all
  select a.Priority, 'Pending', a.RequestId
    from (select top (@p_limit) r.Priority, r.RequestId
            from rowlease.[Load] as l with (forceseek (load_in_lane (QueueName)))
            join rowlease.Lane as r on r.RunNumber = l.RunNumber
           where l.QueueName = @p_queue_name and l.InLane = 1) as a
  union all
  select g.Priority, g.Status, g.RequestId
    from (select top (@p_limit) q.Priority, q.Status, q.RequestId from rowlease.Queue as q
           where q.QueueName = @p_queue_name and q.GroupKey is not null and q.Status <> 'Failed'
             and q.Status = 'Pending' and q.GroupBlocked = 1) as g
  union all
  select s.Priority, s.Status, s.RequestId
    from (select top (@p_limit) q.Priority, q.Status, q.RequestId from rowlease.Queue as q
           where q.QueueName = @p_queue_name and q.Status = 'Scheduled') as s
  union all
  select r.Priority, r.Status, r.RequestId
    from (select top (@p_limit) q.Priority, q.Status, q.RequestId from rowlease.Queue as q
           where q.QueueName = @p_queue_name and q.Status = 'Processing') as r
  union all
  select f.Priority, f.Status, f.RequestId
    from (select top (@p_limit) q.Priority, q.Status, q.RequestId from rowlease.Queue as q
           where q.QueueName = @p_queue_name and q.Status = 'Failed') as f;
