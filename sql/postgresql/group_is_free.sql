-- group_is_free: may this request of a group be claimed?
-- params:   p_queue_name text, p_group_key text, p_request_id bigint
-- returns:  boolean
-- errors:   none
-- locks:    none
-- why:      two enqueues of one group that did not see each other may both stand in the claim's
--           index; the earlier one goes first, and never two at once.
create or replace function rowlease.group_is_free(
  p_queue_name text, p_group_key text, p_request_id bigint
) returns boolean
language sql stable
return not exists (
  select from rowlease.queue g
   where g.queue_name = p_queue_name and g.group_key = p_group_key and g.status <> 'Failed'
     and (g.request_id < p_request_id or g.status = 'Processing'));
