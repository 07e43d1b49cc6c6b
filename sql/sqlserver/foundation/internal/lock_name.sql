-- lock_name: make the name of the application lock of a queue's key.
-- params:   p_kind nvarchar(10), p_queue_name nvarchar(400), p_key nvarchar(400)
-- returns:  nvarchar(255)
-- errors:   none
-- locks:    none
-- why:      a lock's name has at most 255 characters; the names of a queue and a key may have 500
--           together, so they are hashed. Two keys with the same hash only wait for each other.
create or alter function rowlease_internal.lock_name(
  @p_kind nvarchar(10), @p_queue_name nvarchar(400), @p_key nvarchar(400)
) returns nvarchar(255)
as
begin
  return concat(N'rowlease:', @p_kind, N':', convert(bigint, substring(hashbytes('SHA2_256',
           concat(len(@p_queue_name), N':', @p_queue_name, @p_key)), 1, 8)));
end;
