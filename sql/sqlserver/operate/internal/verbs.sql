-- verbs: the verbs of operate, with the statuses of the requests that they take.
-- params:   none
-- returns:  Verb, Takes (the statuses that it can take, as a JSON array), Defaults (those that it takes
--           without being asked)
create or alter function rowlease_internal.verbs() returns table
as
return
  select v.Verb, v.Takes, v.Defaults
    from (values
      (N'cancel', N'["Scheduled","Pending","Processing","Failed"]', N'["Scheduled","Pending","Processing"]'),
      (N'requeue', N'["Failed","Complete","Cancelled"]', N'["Failed"]'),
      (N'reprioritise', N'["Scheduled","Pending","Processing","Failed"]', N'["Scheduled","Pending","Processing"]'),
      (N'reschedule', N'["Scheduled","Pending"]', N'["Scheduled","Pending"]'),
      (N'break', N'["Processing"]', N'["Processing"]'),
      (N'purge', N'["Scheduled","Pending","Failed","Complete","Cancelled"]', N'["Failed"]')
    ) as v (Verb, Takes, Defaults);
