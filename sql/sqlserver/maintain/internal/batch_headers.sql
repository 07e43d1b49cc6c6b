-- batch_headers: add the id and the counts of a finished batch to the headers of a request.
-- params:   p_headers nvarchar(max), p_batch_id nvarchar(100), p_num_complete bigint,
--           p_num_failed bigint, p_num_cancelled bigint
-- returns:  nvarchar(max)
create or alter function rowlease_internal.batch_headers(
  @p_headers nvarchar(max), @p_batch_id nvarchar(100), @p_num_complete bigint, @p_num_failed bigint,
  @p_num_cancelled bigint
) returns nvarchar(max)
as
begin
  return json_modify(json_modify(json_modify(json_modify(coalesce(@p_headers, N'{}'),
    '$.batch_id', @p_batch_id), '$.batch_complete', cast(@p_num_complete as nvarchar(20))),
    '$.batch_failed', cast(@p_num_failed as nvarchar(20))),
    '$.batch_cancelled', cast(@p_num_cancelled as nvarchar(20)));
end;
