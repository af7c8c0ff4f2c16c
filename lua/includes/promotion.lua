-- Promotion: delayed jobs that are due go to where workers take them from.
--- include "events"
--- include "markers"
--- include "priorities"

-- Promotes up to 1000 jobs that fall due by the end of this millisecond, the earliest first: without a priority behind
-- all that wait in the list, as if added now. Workers are woken unless the queue is held.
local function promote_due(delayed_key, list_key, prioritized_key, priority_counter_key, events_key, marker_key,
                           prefix, now_ms, is_held)
  local due = call("ZRANGEBYSCORE", delayed_key, 0, now_ms * 4096 + 4095, "LIMIT", 0, 1000)
  if not due[1] then
    return
  end
  call("ZREM", delayed_key, unpack(due))
  for _, job_id in ipairs(due) do
    local job_key = prefix .. job_id
    local priority = tonumber(call("HGET", job_key, "priority")) or 0
    if priority == 0 then
      call("LPUSH", list_key, job_id)
    else
      add_prioritized(prioritized_key, priority_counter_key, priority, job_id)
    end
    emit(events_key, "waiting", "jobId", job_id, "prev", "delayed")
    call("HSET", job_key, "delay", 0)
  end
  mark_ready(marker_key, is_held)
end
