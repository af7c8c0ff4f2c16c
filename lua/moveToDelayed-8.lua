-- Moves an active job to the delayed set: a retry after a back-off, or a job that asked for it. Its owner computes the
-- delay; the lock goes first.
--
-- KEYS    1 marker   2 active   3 prioritized   4 delayed   5 the job   6 events   7 meta   8 stalled
-- ARGV    1 prefix   2 now, ms   3 job id   4 token   5 delay, ms   6 "0": this counts as an attempt
--         7 fields to set: msgpack, flat, or nothing
-- Output  0 moved; -1 JobNotExist; -2 JobLockNotExist; -6 JobLockMismatch; -3 JobNotInState: not
--         active, and its lock is gone
local call = redis.call
--- include "delayed"
--- include "events"
--- include "job_fields"
--- include "lock"
--- include "markers"

local marker_key, delayed_key, job_key = KEYS[1], KEYS[4], KEYS[5]
local job_id, delay_ms = ARGV[3], ARGV[5]
if call("EXISTS", job_key) == 0 then
  return -1
end
local refusal = release_lock(job_key, job_id, ARGV[4], KEYS[8])
if refusal then
  return refusal
end
set_fields(job_key, ARGV[7])
if call("LREM", KEYS[2], -1, job_id) == 0 then
  return -3
end
local score, due_ms = delayed_score(delayed_key, ARGV[2], delay_ms)
if ARGV[6] == "0" then
  call("HINCRBY", job_key, "atm", 1)
end
call("HSET", job_key, "delay", delay_ms)
local max_events = max_events_of(KEYS[7])
call("ZADD", delayed_key, score, job_id)
emit_and_trim(KEYS[6], max_events, "delayed", "jobId", job_id, "delay", due_ms)
mark_due(marker_key, delayed_key)
return 0
