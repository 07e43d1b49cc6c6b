-- check_filter: refuse a filter of requests that is wrong.
-- params:   p_filter nvarchar(max)
-- returns:  nothing
create or alter procedure rowlease_internal.check_filter @p_filter nvarchar(max)
as
set nocount on;
set xact_abort on;
declare @says nvarchar(2048), @key nvarchar(4000);
declare @keys nvarchar(400) = N'queue, status, kind, error, error_pattern, dedup_key, group_key, load_id, worker, ids, min_priority, max_priority, min_age_ms, max_age_ms, since, until';
select top (1) @key = j.[key] from openjson(@p_filter) as j
 where charindex(concat(N', ', j.[key], N','), concat(N', ', @keys, N',')) = 0;
if @key is not null
begin
  set @says = concat(N'a filter has no key "', @key, N'"; the keys are ', @keys);
  throw 51001, @says, 1;
end;
if exists (select 1 from openjson(@p_filter) as j
            where j.[key] = 'status' and j.type not in (0, 4))
   or exists (select 1 from openjson(@p_filter, '$.status') as s
               where s.value collate Latin1_General_100_BIN2 not in (
                 N'Scheduled', N'Pending', N'Processing', N'Failed', N'Complete', N'Cancelled'))
  throw 51001,
    N'status must be an array of Scheduled, Pending, Processing, Failed, Complete or Cancelled', 1;
if (select count(*) from openjson(@p_filter, '$.ids')) > 10000
  throw 51001, N'a filter may have at most 10,000 ids', 1;
select top (1) @key = j.[key] from openjson(@p_filter) as j
 where j.type <> 0
   and (j.[key] = 'ids' and j.type <> 4
        or j.[key] in ('min_priority', 'max_priority') and try_cast(j.value as int) is null
        or j.[key] in ('min_age_ms', 'max_age_ms') and try_cast(j.value as bigint) is null
        or j.[key] in ('since', 'until')
           and (try_cast(j.value as datetime2(6)) is null
                or j.value like N'%[+-][0-9][0-9]:[0-9][0-9]'));
if @key is null and exists (select 1 from openjson(@p_filter, '$.ids') as i
                             where try_cast(i.value as bigint) is null)
  set @key = N'ids';
if @key is not null
begin
  set @says = concat(N'a value of the filter is wrong: ', @key);
  throw 51001, @says, 1;
end;
