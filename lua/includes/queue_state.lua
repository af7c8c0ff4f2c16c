-- What a queue's meta hash says about taking jobs from it.

-- Returns whether no worker may take a job now (the queue is paused, or as many jobs are active as it allows), whether
-- it is paused, and the queue's own rate limit: max, and duration in ms. What is not set is false.
local function read_queue_state(meta_key, active_key)
  local paused, concurrency, max, duration_ms =
    unpack(call("HMGET", meta_key, "paused", "concurrency", "max", "duration"))
  local is_held = paused or concurrency and call("LLEN", active_key) >= tonumber(concurrency)
  return is_held, paused, max, duration_ms
end

-- Returns the list where a job that may run now is put, and the same as above, without whether it is paused.
local function target_list(meta_key, active_key, wait_key, paused_key)
  local is_held, paused, max, duration_ms = read_queue_state(meta_key, active_key)
  return paused and paused_key or wait_key, is_held, max, duration_ms
end
