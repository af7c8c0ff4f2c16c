-- Adds a job that waits for children which are still to be added.
--
-- KEYS    1 meta   2 id   3 delayed   4 waiting-children   5 completed   6 events
-- ARGV    1 packed array: prefix, id or "", name, now in ms, parent's key, its dependencies' key, parent
--         {id, queueKey}, scheduler's key, deduplication key
--         2 data, JSON   3 packed options
-- Output  the job's id, or that of the job which is there instead; -5 the parent does not exist; -7 the id is taken by
--         the child of another parent
local call = redis.call
--- include "events"
--- include "new_job"

local args = cmsgpack.unpack(ARGV[1])
local job, reply = make_job(args, ARGV[2], cmsgpack.unpack(ARGV[3]), KEYS[2], KEYS[1], KEYS[6], KEYS[5], KEYS[3])
if not job then
  return reply
end
call("ZADD", KEYS[4], args[4], job.id)
emit_and_trim(KEYS[6], job.max_events, "waiting-children", "jobId", job.id)
return tie_to_parent(job)
