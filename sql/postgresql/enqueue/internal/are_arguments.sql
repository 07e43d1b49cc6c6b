-- are_arguments: test whether a JSON text is an object without half of a surrogate pair.
-- params:   p_payload text
-- returns:  boolean -- true for null
-- errors:   none
-- locks:    none
-- why:      a task takes arguments by name. The type json accepts one half of a pair (\ud800 to
--           \udfff), which is no character, and which most decoders refuse. Most payloads have no
--           backslash, which is cheap to see. PostgreSQL inlines this function.
create or replace function rowlease_internal.are_arguments(p_payload text) returns boolean
language sql immutable
return p_payload is null
       or (p_payload like '{%' or p_payload ~ '^\s*\{')
          and (strpos(p_payload, '\') = 0
               or regexp_replace(replace(p_payload, '\\', '  '),
                                 '\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]', ' ', 'g')
                  !~ '\\u[dD][89a-fA-F]');
