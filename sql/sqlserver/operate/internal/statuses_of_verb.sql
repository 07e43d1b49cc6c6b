-- statuses_of_verb: return the statuses of the requests that a verb takes.
-- params:   p_verb nvarchar(max), p_named bit (1: all that it can take; 0: those without being asked)
-- returns:  nvarchar(200) -- a JSON array; null: there is no such verb
-- errors:   none
-- locks:    none
-- why:      without a status, a verb takes what an operator would expect: requeue does not copy the
--           history, and cancel leaves dead letters.
create or alter function rowlease_internal.statuses_of_verb(@p_verb nvarchar(max), @p_named bit)
returns nvarchar(200)
as
begin
  return case when @p_verb in (N'cancel', N'reprioritise') and @p_named = 1
                then N'["Scheduled","Pending","Processing","Failed"]'
              when @p_verb in (N'cancel', N'reprioritise') then N'["Scheduled","Pending","Processing"]'
              when @p_verb = N'requeue' and @p_named = 1 then N'["Failed","Complete","Cancelled"]'
              when @p_verb = N'requeue' then N'["Failed"]'
              when @p_verb = N'reschedule' then N'["Scheduled","Pending"]'
              when @p_verb = N'break' then N'["Processing"]'
              when @p_verb = N'purge' and @p_named = 1
                then N'["Scheduled","Pending","Failed","Complete","Cancelled"]'
              when @p_verb = N'purge' then N'["Failed"]' end;
end;
