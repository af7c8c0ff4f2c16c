-- Picking a job up: what must be asked first, and what comes with it. `keys` are the first ten KEYS that moveToActive
-- and moveToFinished have in common: wait, active, prioritized, events, stalled, limiter, delayed, paused, meta, pc.
--- include "events"
--- include "markers"
--- include "promotion"
--- include "queue_state"

-- Returns for how many ms the limiter lets no job through; 0 where it does.
local function limited_ms(limiter_key, limiter_max)
  if not limiter_max or limiter_max > tonumber(call("GET", limiter_key) or 0) then
    return 0
  end
  local ttl_ms = call("PTTL", limiter_key)
  if ttl_ms == 0 then
    call("DEL", limiter_key) -- in its last millisecond: the next job starts a new count
  end
  return math.max(ttl_ms, 0)
end

-- Promotes what is due, then asks limiter, pause and concurrency. Returns the reply where no job may be taken now; else
-- nil, and the limiter's count of jobs and duration. The queue's own count stands before the worker's; its own duration
-- does not.
local function ask_for_job(keys, marker_key, prefix, now_ms, limiter)
  local list_key, is_held, max, duration_ms = target_list(keys[9], keys[2], keys[1], keys[8])
  promote_due(keys[7], list_key, keys[3], keys[10], keys[4], marker_key, prefix, now_ms, is_held)
  max = tonumber(max or limiter and limiter.max)
  local wait_ms = limited_ms(keys[6], max)
  if wait_ms > 0 or is_held then
    return { 0, 0, wait_ms, 0 }
  end
  return nil, max, limiter and limiter.duration or duration_ms
end

-- Makes the first prioritised job active, and returns its id. The counter starts anew once none is left.
local function take_prioritized(keys)
  local job_id = call("ZPOPMIN", keys[3])[1]
  if job_id then
    call("LPUSH", keys[2], job_id)
  else
    call("DEL", keys[10])
  end
  return job_id
end

-- Gives a job that has become active to the worker: counts it in the limiter, locks it, and returns the reply. Another
-- worker is woken, as there may be more.
local function hand_over(job_id, keys, marker_key, prefix, now_ms, limiter_max, limiter_ms, opts)
  local job_key, token, name = prefix .. job_id, opts.token, opts.name
  if limiter_max and call("INCR", keys[6]) == 1 then
    call("PEXPIRE", keys[6], math.floor(math.abs(limiter_ms)))
  end
  if token ~= "0" then
    call("SET", job_key .. ":lock", token, "PX", opts.lockDuration)
  end
  emit(keys[4], "active", "jobId", job_id, "prev", "waiting")
  if name then
    call("HSET", job_key, "processedOn", now_ms, "pb", name)
  else
    call("HSET", job_key, "processedOn", now_ms)
  end
  call("HINCRBY", job_key, "ats", 1)
  mark_ready(marker_key, false)
  return { call("HGETALL", job_key), job_id, 0, 0 }
end
