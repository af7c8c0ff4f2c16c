-- Recovers stalled jobs in two passes. Each pass marks all active jobs; a renewal takes its job's mark away; the next
-- pass finds which marked jobs have no lock, and puts them back. One that has now stalled more often than it may gets
-- a deferred failure and is put back, too: the worker that picks it up next fails it.
--
-- KEYS    1 stalled, the set of marks   2 wait   3 active   4 stalled-check   5 meta   6 paused   7 marker   8 events
-- ARGV    1 how often a job may stall   2 prefix   3 now, ms   4 how long no other pass may run, ms
-- Output  the ids of the jobs put back; empty also where another pass ran just before
local call = redis.call
--- include "events"
--- include "markers"
--- include "queue_state"

local stalled_key, active_key, check_key, meta_key, events_key = KEYS[1], KEYS[3], KEYS[4], KEYS[5], KEYS[8]
local stalls_max, prefix = tonumber(ARGV[1]), ARGV[2]

-- A job that a schedule repeats never fails for its stalls: its successor would not come.
local function is_repeated(job_key)
  local opts = call("HGET", job_key, "opts")
  return opts and cjson.decode(opts)["repeat"]
end

-- Puts a job back if it is active and has no lock. Returns whether it did.
local function put_back(job_id)
  local job_key = prefix .. job_id
  if call("EXISTS", job_key .. ":lock") == 1 or call("LREM", active_key, 1, job_id) == 0 then
    return false
  end
  if call("HINCRBY", job_key, "stc", 1) > stalls_max and not is_repeated(job_key) then
    call("HSET", job_key, "defa", "job stalled more than allowable limit")
  end
  local list_key, is_held = target_list(meta_key, active_key, KEYS[2], KEYS[6])
  call("RPUSH", list_key, job_id)
  mark_ready(KEYS[7], is_held)
  emit(events_key, "waiting", "jobId", job_id, "prev", "active")
  emit(events_key, "stalled", "jobId", job_id)
  return true
end

if not call("SET", check_key, ARGV[3], "PX", ARGV[4], "NX") then
  return {}
end
call("XTRIM", events_key, "MAXLEN", "~", max_events_of(meta_key)) -- first, so that nothing told below is trimmed
local stalled = {}
local marked = call("SMEMBERS", stalled_key)
call("DEL", stalled_key)
for _, job_id in ipairs(marked) do
  if job_id:sub(1, 2) == "0:" then -- no job: what woke workers in releases before 5
    call("LREM", active_key, 1, job_id)
  elseif put_back(job_id) then
    stalled[#stalled + 1] = job_id
  end
end
local active = call("LRANGE", active_key, 0, -1)
for first = 1, #active, 1000 do -- a command takes no more than some thousand arguments from Lua
  call("SADD", stalled_key, unpack(active, first, math.min(first + 999, #active)))
end
return stalled
