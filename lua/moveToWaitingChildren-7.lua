-- Lets an active job wait for its children: for one of them, or for any that is pending.
--
-- KEYS    1 active   2 waiting-children   3 the job   4 its dependencies   5 its unsuccessful children   6 stalled
--         7 events
-- ARGV    1 token   2 the child's key, "" for any   3 now, ms   4 job id   5 prefix, unused
-- Output  0 it waits; 1 nothing to wait for, and it keeps its lock; -1 no such job; -2 no lock; -3 it is not active,
--         and its lock is gone; -6 another's lock; -9 a child has failed
local call = redis.call
--- include "events"
--- include "lock"

local job_id = ARGV[4]
if call("EXISTS", KEYS[3]) == 0 then
  return -1 -- JobNotExist
end
if call("ZCARD", KEYS[5]) ~= 0 then
  return -9 -- JobHasFailedChildren
end
local is_pending
if ARGV[2] ~= "" then
  is_pending = call("SISMEMBER", KEYS[4], ARGV[2]) == 1
else
  is_pending = call("SCARD", KEYS[4]) ~= 0
end
if not is_pending then
  return 1
end
local refusal = release_lock(KEYS[3], job_id, ARGV[1], KEYS[6])
if refusal then
  return refusal
end
if call("LREM", KEYS[1], -1, job_id) == 0 then
  return -3 -- JobNotInState
end
call("ZADD", KEYS[2], ARGV[3], job_id)
emit(KEYS[7], "waiting-children", "jobId", job_id, "prev", "active")
return 0
