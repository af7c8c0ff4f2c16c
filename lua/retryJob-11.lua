-- Moves an active job back to where jobs wait, for its next attempt. What is due is promoted first, even if the job
-- then stays where it is.
--
-- KEYS    1 active   2 wait   3 paused   4 the job   5 meta   6 events   7 delayed   8 prioritized   9 priority counter
--         10 marker   11 stalled
-- ARGV    1 prefix   2 now, ms   3 LPUSH (the back of the queue) or RPUSH (its front)   4 job id   5 token
--         6 fields to set: msgpack, flat, or nothing
-- Output  0 moved; -1 JobNotExist; -2 JobLockNotExist; -6 JobLockMismatch; -3 JobNotInState: not
--         active, and its lock is gone
local call = redis.call
--- include "events"
--- include "job_fields"
--- include "lock"
--- include "markers"
--- include "priorities"
--- include "promotion"
--- include "queue_state"

local active_key, job_key, meta_key, events_key = KEYS[1], KEYS[4], KEYS[5], KEYS[6]
local prioritized_key, priority_counter_key, marker_key = KEYS[8], KEYS[9], KEYS[10]
local job_id = ARGV[4]
local list_key, is_held = target_list(meta_key, active_key, KEYS[2], KEYS[3])
promote_due(KEYS[7], list_key, prioritized_key, priority_counter_key, events_key, marker_key, ARGV[1], ARGV[2], is_held)
if call("EXISTS", job_key) == 0 then
  return -1
end
local refusal = release_lock(job_key, job_id, ARGV[5], KEYS[11])
if refusal then
  return refusal
end
set_fields(job_key, ARGV[6])
if call("LREM", active_key, -1, job_id) == 0 then
  return -3
end
local priority = tonumber(call("HGET", job_key, "priority")) or 0
if priority == 0 then
  call(ARGV[3], list_key, job_id)
else
  add_prioritized(prioritized_key, priority_counter_key, priority, job_id)
end
mark_ready(marker_key, (read_queue_state(meta_key, active_key))) -- anew: there is one active job fewer
call("HINCRBY", job_key, "atm", 1)
emit_and_trim(events_key, max_events_of(meta_key), "waiting", "jobId", job_id, "prev", "active")
return 0
