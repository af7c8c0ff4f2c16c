-- What becomes of a parent when one of its children ends or is removed. `link` is what a child's hash says of its
-- parent: its id, its queue's key, and what a failure of the child means for it.
--- include "events"
--- include "markers"
--- include "parents"
--- include "queue_state"

-- A key's queue, without the colon, and id, where nothing else tells them: what stands before and behind the last
-- colon.
local function split_job_key(job_key)
  return job_key:match("(.*):(.*)")
end

-- A child has completed: its parent gets what it returned, and goes on if no other child is pending.
local function child_completed(parent_key, link, child_key, value, now_ms)
  local dependencies_key = parent_key .. ":dependencies"
  if call("SREM", dependencies_key, child_key) == 0 then
    return
  end
  local queue_key, parent_id
  if link then
    queue_key, parent_id = link.queueKey, link.id
  else
    queue_key, parent_id = split_job_key(parent_key)
  end
  note_processed_child(queue_key, parent_key, dependencies_key, parent_id, child_key, value, now_ms)
end

-- Lets a parent fail for a child: the failure is noted, and who picks the parent up next fails it. One that waits for
-- children, or is delayed, is queued for that at once; one that has failed already is left alone.
local function fail_parent(queue_key, parent_key, parent_id, child_key, now_ms)
  if call("EXISTS", parent_key) == 0 then
    return
  end
  local is_idle = call("ZREM", queue_key .. ":waiting-children", parent_id) == 1
  if not is_idle and call("ZREM", queue_key .. ":delayed", parent_id) == 1 then
    is_idle = true
    call("HSET", parent_key, "delay", 0)
  end
  if not is_idle and call("ZSCORE", queue_key .. ":failed", parent_id) then
    return
  end
  call("HSET", parent_key, "defa", "child " .. child_key .. " failed")
  if is_idle then
    queue_parent(queue_key, parent_key, parent_id, now_ms)
  end
end

-- A child has failed for good. By its own options its parent fails (`fpof`), goes on at once (`cpof`), or counts one
-- child fewer, with the reason noted (`idof`) or not (`rdof`). Without any of them it stays pending.
local function child_failed(link, child_key, reason, now_ms)
  if not (link.fpof or link.cpof or link.idof or link.rdof) then
    return
  end
  local queue_key, parent_id = link.queueKey, link.id
  local parent_key = queue_key .. ":" .. parent_id
  local dependencies_key = parent_key .. ":dependencies"
  if call("SREM", dependencies_key, child_key) == 0 then
    return
  end
  if link.fpof then
    call("ZADD", parent_key .. ":unsuccessful", now_ms, child_key)
    return fail_parent(queue_key, parent_key, parent_id, child_key, now_ms)
  end
  if link.cpof or link.idof then
    call("HSET", parent_key .. ":failed", child_key, reason)
  end
  if link.cpof then
    return release_parent(queue_key, parent_key, parent_id, now_ms)
  end
  release_parent_without_children(queue_key, parent_key, dependencies_key, parent_id, now_ms)
end

-- A child is removed. If it was pending, and the last one, its parent goes on: into the list, whatever priority or
-- delay it has.
local function child_removed(parent_key, child_key)
  local dependencies_key = parent_key .. ":dependencies"
  if call("SREM", dependencies_key, child_key) == 0 or call("SCARD", dependencies_key) > 0 then
    return
  end
  local queue_key, parent_id = split_job_key(parent_key)
  if call("ZREM", queue_key .. ":waiting-children", parent_id) == 0 then
    return
  end
  local list_key, is_held =
    target_list(queue_key .. ":meta", queue_key .. ":active", queue_key .. ":wait", queue_key .. ":paused")
  call("RPUSH", list_key, parent_id)
  mark_ready(queue_key .. ":marker", is_held)
  emit(queue_key .. ":events", "waiting", "jobId", parent_id, "prev", "waiting-children")
end
