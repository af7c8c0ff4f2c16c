-- Adds a job that falls due after a delay.
--
-- KEYS    1 marker   2 meta   3 id   4 delayed   5 completed   6 events
-- ARGV    1 packed array: prefix, id or "", name, now in ms, parent's key, its dependencies' key, parent
--         {id, queueKey}, scheduler's key, deduplication key
--         2 data, JSON   3 packed options
-- Output  the job's id, or that of the job which is there instead; -5 the parent does not exist; -7 the id is taken by
--         the child of another parent
local call = redis.call
--- include "delayed"
--- include "events"
--- include "markers"
--- include "new_job"

local args = cmsgpack.unpack(ARGV[1])
local job, reply = make_job(args, ARGV[2], cmsgpack.unpack(ARGV[3]), KEYS[3], KEYS[2], KEYS[6], KEYS[5], KEYS[4])
if not job then
  return reply
end
local score, due_ms = delayed_score(KEYS[4], args[4], job.delay_ms)
call("ZADD", KEYS[4], score, job.id)
emit_and_trim(KEYS[6], job.max_events, "delayed", "jobId", job.id, "delay", due_ms)
mark_due(KEYS[1], KEYS[4])
return tie_to_parent(job)
