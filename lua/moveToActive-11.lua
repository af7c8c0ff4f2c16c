-- Picks up the next job: promotes what is due, asks limiter, pause and concurrency, then takes a waiting job, or else
-- the first prioritised one, and locks it.
--
-- KEYS    1 wait   2 active   3 prioritized   4 events   5 stalled   6 limiter   7 delayed   8 paused   9 meta
--         10 priority counter   11 marker
-- ARGV    1 prefix   2 now, ms   3 msgpack map: token, lockDuration (ms), limiter (max, duration), name (of the worker)
-- Output  four elements. A job: its fields and values in turn, its id, 0, 0. None: 0, 0, the ms until the limiter lets
--         one through, the ms timestamp at which the first delayed one falls due; 0 for what does not apply
local call = redis.call
--- include "markers"
--- include "pickup"

local prefix, now_ms, opts = ARGV[1], ARGV[2], cmsgpack.unpack(ARGV[3])
local refusal, limiter_max, limiter_ms = ask_for_job(KEYS, KEYS[11], prefix, now_ms, opts.limiter)
if refusal then
  return refusal
end
local job_id = call("RPOPLPUSH", KEYS[1], KEYS[2])
if job_id and job_id:sub(1, 2) == "0:" then -- no job: what woke workers in releases before 5
  call("LREM", KEYS[2], 1, job_id)
  job_id = call("RPOPLPUSH", KEYS[1], KEYS[2])
end
job_id = job_id or take_prioritized(KEYS)
if job_id then
  return hand_over(job_id, KEYS, KEYS[11], prefix, now_ms, limiter_max, limiter_ms, opts)
end
return { 0, 0, 0, next_due_ms(KEYS[7]) or 0 }
