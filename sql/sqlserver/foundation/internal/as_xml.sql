-- as_xml: escape JSON text, so that an xml parameter can hold it.
-- params:   p_json nvarchar(max)
-- returns:  nvarchar(max) -- the same JSON, in which &, < and > are written as \u0026, \u003c and \u003e
-- errors:   none
-- locks:    none
-- why:      JSON has these characters only within strings, where it knows that spelling, too.
create or alter function rowlease_internal.as_xml(@p_json nvarchar(max)) returns nvarchar(max)
as
begin
  return replace(replace(replace(@p_json, N'&', N'\u0026'), N'<', N'\u003c'), N'>', N'\u003e');
end;
