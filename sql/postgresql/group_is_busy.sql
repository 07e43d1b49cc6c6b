-- group_is_busy: does an unfinished request of this group exist?
-- params:   p_queue_name text, p_group_key text
-- returns:  boolean -- false for requests without a group
-- errors:   none
-- locks:    none
-- why:      a request behind another of its group is marked, and kept out of the claim's index.
create or replace function rowlease.group_is_busy(p_queue_name text, p_group_key text)
returns boolean
language sql stable
return p_group_key is not null and exists (
  select from rowlease.queue q
   where q.queue_name = p_queue_name and q.group_key = p_group_key and q.status <> 'Failed');
