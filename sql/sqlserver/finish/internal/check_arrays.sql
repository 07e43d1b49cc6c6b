-- check_arrays: refuse parallel arrays of different lengths.
-- params:   p_request_ids nvarchar(max), p_lock_tokens nvarchar(max), p_third nvarchar(max),
--           p_fourth nvarchar(max), p_fifth nvarchar(max), p_sixth nvarchar(max),
--           p_seventh nvarchar(max)
-- returns:  nothing
-- why:      a short array would be filled up with nulls, and a null token must never be compared.
create or alter procedure rowlease_internal.check_arrays
  @p_request_ids nvarchar(max), @p_lock_tokens nvarchar(max), @p_third nvarchar(max) = null,
  @p_fourth nvarchar(max) = null, @p_fifth nvarchar(max) = null,
  @p_sixth nvarchar(max) = null, @p_seventh nvarchar(max) = null
as
set nocount on;
set xact_abort on;
declare @length int = (select count(*) from openjson(@p_request_ids));
if @p_request_ids is null or @p_lock_tokens is null
   or @length <> (select count(*) from openjson(@p_lock_tokens))
   or @p_third is not null and @length <> (select count(*) from openjson(@p_third))
   or @p_fourth is not null and @length <> (select count(*) from openjson(@p_fourth))
   or @p_fifth is not null and @length <> (select count(*) from openjson(@p_fifth))
   or @p_sixth is not null and @length <> (select count(*) from openjson(@p_sixth))
   or @p_seventh is not null and @length <> (select count(*) from openjson(@p_seventh))
  throw 51001,
    N'request ids, lock tokens and the other arrays must have the same length', 1;
