-- rate_parts: read the setting of a rate, such as 100/1m.
-- params:   p_rate nvarchar(30)
-- returns:  num_starts bigint, period_ms bigint -- no row if there is no rate, or its period is over
--           99999h or 9999d
-- errors:   none
-- locks:    none
-- why:      configure_queue refuses what this cannot read. A longer period would begin before the
--           first year of a datetime2. An engine may compute columns before it asks for the condition,
--           and a length below 0 is an error; so lengths have no sign.
create or alter function rowlease_internal.rate_parts(@p_rate nvarchar(30)) returns table
as
return
  select try_cast(left(p.rate, abs(p.slash - 1)) as bigint) as num_starts,
         try_cast(substring(p.rate, p.slash + 1, abs(p.unit_at - p.slash - 1)) as bigint)
         * case substring(p.rate, p.unit_at, 2)
                when N'ms' then 1 when N's' then 1000 when N'm' then 60000 when N'h' then 3600000
                when N'd' then 86400000 end as period_ms
    from (select @p_rate as rate, charindex(N'/', @p_rate) as slash,
                 len(@p_rate) - case when @p_rate like N'%ms' then 1 else 0 end as unit_at) as p
   where p.slash > 1 and p.unit_at > p.slash + 1
     and @p_rate not like N'%/______%h' and @p_rate not like N'%/_____%d';
