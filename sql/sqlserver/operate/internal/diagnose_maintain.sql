-- diagnose_maintain: find steps of the housekeeping that fail; a part of diagnose.
-- params:   p_findings xml output
-- returns:  p_findings -- a JSON array of objects: finding, subject, message, action; null: none
create or alter procedure rowlease_internal.diagnose_maintain @p_findings xml output
as
set nocount on;
set xact_abort on;
set @p_findings = rowlease_internal.as_xml((
  select 'maintain' as finding, coalesce(nullif(f.QueueName, N''), N'maintain') as subject,
         concat(N'the step "', f.What, N'" of maintain has failed since ',
                rowlease_internal.time_text(f.FailedSince), N': ', f.Error) as message,
         concat(N'a row was changed by hand, or the server refuses: correct or delete what the error names; ',
                N'maintain tries again every second, and its other steps go on') as action
    from rowlease.MaintainFailure as f
   order by f.FailedSince, f.What, f.QueueName
     for json path));
