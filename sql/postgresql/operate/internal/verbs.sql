-- verbs: the verbs of operate, with the statuses of the requests that they take.
-- params:   none
-- returns:  verb text, takes text[] (the statuses that it can take), defaults text[] (those that it takes
--           without being asked)
-- errors:   none
-- locks:    none
-- why:      without a status, a verb takes what an operator would expect: requeue does not copy the
--           history, and cancel leaves dead letters.
create or replace function rowlease_internal.verbs()
returns table (verb text, takes text[], defaults text[])
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  values
    ('cancel', array['Scheduled', 'Pending', 'Processing', 'Failed'], array['Scheduled', 'Pending', 'Processing']),
    ('requeue', array['Failed', 'Complete', 'Cancelled'], array['Failed']),
    ('reprioritise', array['Scheduled', 'Pending', 'Processing', 'Failed'], array['Scheduled', 'Pending', 'Processing']),
    ('reschedule', array['Scheduled', 'Pending'], array['Scheduled', 'Pending']),
    ('break', array['Processing'], array['Processing']),
    ('purge', array['Scheduled', 'Pending', 'Failed', 'Complete', 'Cancelled'], array['Failed'])
$$;
