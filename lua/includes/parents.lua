-- A parent that waits for its children. Its queue may be another than theirs: `queue_key` is that queue's prefix
-- without the colon, and all its keys are made of it.
--- include "events"
--- include "markers"
--- include "priorities"
--- include "queue_state"

-- Puts a parent where it runs next: among the delayed if it has a delay, else at the end that is taken first, or behind
-- those of its priority. The delay counts from now, and leaves no place among the jobs of a millisecond.
local function queue_parent(queue_key, parent_key, parent_id, now_ms)
  local attributes = call("HMGET", parent_key, "priority", "delay")
  local priority, delay_ms = tonumber(attributes[1]) or 0, tonumber(attributes[2]) or 0
  local events_key, marker_key = queue_key .. ":events", queue_key .. ":marker"
  if delay_ms > 0 then
    local delayed_key, due_ms = queue_key .. ":delayed", now_ms + delay_ms
    call("ZADD", delayed_key, due_ms * 4096, parent_id)
    mark_due(marker_key, delayed_key)
    return emit(events_key, "delayed", "jobId", parent_id, "delay", due_ms)
  end
  local list_key, is_held =
    target_list(queue_key .. ":meta", queue_key .. ":active", queue_key .. ":wait", queue_key .. ":paused")
  if priority == 0 then
    call("RPUSH", list_key, parent_id)
  else
    add_prioritized(queue_key .. ":prioritized", queue_key .. ":pc", priority, parent_id)
  end
  mark_ready(marker_key, is_held)
  emit(events_key, "waiting", "jobId", parent_id, "prev", "waiting-children")
end

-- Ends a parent's wait, if it exists and waits.
local function release_parent(queue_key, parent_key, parent_id, now_ms)
  if call("EXISTS", parent_key) == 1 and call("ZREM", queue_key .. ":waiting-children", parent_id) == 1 then
    queue_parent(queue_key, parent_key, parent_id, now_ms)
  end
end

-- Ends a parent's wait, if no child is pending any more.
local function release_parent_without_children(queue_key, parent_key, dependencies_key, parent_id, now_ms)
  if call("SCARD", dependencies_key) == 0 then
    release_parent(queue_key, parent_key, parent_id, now_ms)
  end
end

-- Notes what a child returned, and ends its parent's wait if it was the last that was pending.
local function note_processed_child(queue_key, parent_key, dependencies_key, parent_id, child_key, value, now_ms)
  call("HSET", parent_key .. ":processed", child_key, value)
  release_parent_without_children(queue_key, parent_key, dependencies_key, parent_id, now_ms)
end
