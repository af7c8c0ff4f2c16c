-- Adds a job that can be taken at once: behind the waiting ones, or with `lifo` before them.
--
-- KEYS    1 wait   2 paused   3 meta   4 id   5 completed   6 delayed   7 active   8 events   9 marker
-- ARGV    1 packed array: prefix, id or "", name, now in ms, parent's key, its dependencies' key, parent
--         {id, queueKey}, scheduler's key, deduplication key
--         2 data, JSON   3 packed options
-- Output  the job's id, or that of the job which is there instead; -5 the parent does not exist; -7 the id is taken by
--         the child of another parent
local call = redis.call
--- include "events"
--- include "markers"
--- include "new_job"
--- include "queue_state"

local opts = cmsgpack.unpack(ARGV[3])
local job, reply =
  make_job(cmsgpack.unpack(ARGV[1]), ARGV[2], opts, KEYS[4], KEYS[3], KEYS[8], KEYS[5], KEYS[6])
if not job then
  return reply
end
local list_key, is_held = target_list(KEYS[3], KEYS[7], KEYS[1], KEYS[2])
call(opts.lifo and "RPUSH" or "LPUSH", list_key, job.id)
mark_ready(KEYS[9], is_held)
emit_and_trim(KEYS[8], job.max_events, "waiting", "jobId", job.id)
return tie_to_parent(job)
