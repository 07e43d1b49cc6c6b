-- discard_staged: drop the staged rows of a load but for the parts that count.
-- params:   p_load_id nvarchar(400), p_kept_parts nvarchar(max) -- empty: drop all; a row's part is its
--           row_id divided by 2^30
-- returns:  bigint -- how many rows were dropped
-- errors:   none
-- locks:    rows of staging of this load, in no order: only writers of the same load meet here
-- why:      of several tries of a Spark task all may have written; the driver knows which one counts.
--           A promoted load is not touched: it has no staged rows, or late ones that nobody promotes.
create or alter procedure rowlease.discard_staged
  @p_load_id nvarchar(400), @p_kept_parts nvarchar(max)
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @dropped bigint;
delete from rowlease.Staging
 where LoadId = @p_load_id
   and RowId / 1073741824 not in (select cast(k.value as bigint) from openjson(@p_kept_parts) as k);
set @dropped = rowcount_big();
select @dropped as dropped;
