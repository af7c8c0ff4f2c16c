-- Puts an active job back to where it was taken from, before all others of its kind: its worker may not run it now, as
-- the queue is rate limited. No attempt is counted.
--
-- KEYS    1 active   2 wait   3 stalled   4 paused   5 meta   6 limiter   7 prioritized   8 marker   9 events
-- ARGV    1 job id   2 token   3 the job's key
-- Output  the limiter's time to live in ms, or 0, also where the job was not active (its lock is gone then);
--         -1 JobNotExist; -2 JobLockNotExist; -6 JobLockMismatch
local call = redis.call
--- include "events"
--- include "lock"
--- include "markers"
--- include "queue_state"

local active_key, meta_key = KEYS[1], KEYS[5]
local job_id, job_key = ARGV[1], ARGV[3]
if call("EXISTS", job_key) == 0 then
  return -1
end
local refusal = release_lock(job_key, job_id, ARGV[2], KEYS[3])
if refusal then
  return refusal
end
if call("LREM", active_key, 1, job_id) == 1 then
  local priority = tonumber(call("HGET", job_key, "priority")) or 0
  if priority > 0 then
    call("ZADD", KEYS[7], priority * 4294967296, job_id) -- as if the counter stood at 0: first of its priority
  else
    local list_key, is_held = target_list(meta_key, active_key, KEYS[2], KEYS[4])
    call("RPUSH", list_key, job_id)
    mark_ready(KEYS[8], is_held)
  end
  emit_and_trim(KEYS[9], max_events_of(meta_key), "waiting", "jobId", job_id, "prev", "active")
end
return math.max(call("PTTL", KEYS[6]), 0)
