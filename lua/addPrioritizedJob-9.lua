-- Adds a job with a priority, behind those of the same priority.
--
-- KEYS    1 marker   2 meta   3 id   4 prioritized   5 delayed   6 completed   7 active   8 events   9 priority counter
-- ARGV    1 packed array: prefix, id or "", name, now in ms, parent's key, its dependencies' key, parent
--         {id, queueKey}, scheduler's key, deduplication key
--         2 data, JSON   3 packed options
-- Output  the job's id, or that of the job which is there instead; -5 the parent does not exist; -7 the id is taken by
--         the child of another parent
local call = redis.call
--- include "events"
--- include "markers"
--- include "new_job"
--- include "priorities"
--- include "queue_state"

local job, reply =
  make_job(cmsgpack.unpack(ARGV[1]), ARGV[2], cmsgpack.unpack(ARGV[3]), KEYS[3], KEYS[2], KEYS[8], KEYS[6], KEYS[5])
if not job then
  return reply
end
add_prioritized(KEYS[4], KEYS[9], job.priority, job.id)
mark_ready(KEYS[1], read_queue_state(KEYS[2], KEYS[7]))
emit_and_trim(KEYS[8], job.max_events, "waiting", "jobId", job.id)
return tie_to_parent(job)
