-- error_pattern: the first line of an error, with # for each run of digits.
-- params:   p_error nvarchar(max)
-- returns:  nvarchar(200): the first 250 characters of the line, masked and cut to 200
-- errors:   none
-- locks:    none
-- why:      T-SQL has no regular expressions. Each digit becomes 0, and 0 becomes the pair 01. In a run
--           of pairs 10 stands between two pairs; without it, one pair is left.
create or alter function rowlease_internal.error_pattern(@p_error nvarchar(max)) returns nvarchar(200)
as
begin
  declare @line nvarchar(251) = concat(left(@p_error, 250), nchar(10));
  declare @pairs nvarchar(500);
  set @line = left(@line, charindex(nchar(10), @line) - 1);
  set @pairs = replace(translate(@line collate Latin1_General_100_BIN2, N'123456789', N'000000000'),
                       N'0', N'01');
  return left(replace(replace(@pairs collate Latin1_General_100_BIN2, N'10', N''), N'01', N'#'), 200);
end;
