-- Ends an active job, completed or failed: releases its lock, tells its parent, keeps or removes it and others before
-- it, counts it; then, if asked to, picks up the next one under the same token.
--
-- KEYS    1 wait   2 active   3 prioritized   4 events   5 stalled   6 limiter   7 delayed   8 paused   9 meta
--         10 priority counter   11 completed or failed   12 the job   13 metrics:completed or metrics:failed
--         14 marker
-- ARGV    1 job id   2 now, ms   3 returnvalue or failedReason   4 its value   5 completed or failed
--         6 "1": pick up the next   7 prefix   8 msgpack map: token; keepJobs (count: -1 all, 0 none; age, s);
--         attempts, how many the job has; maxMetricsSize, minutes, "" for no count; for the pickup lockDuration (ms),
--         limiter (max, duration), name (of the worker)   9 fields to set: msgpack, flat, or nothing
-- Output  0 ended; -1 JobNotExist; -4 JobPendingChildren, -9 JobHasFailedChildren: a job with such cannot complete;
--         -2 JobLockNotExist; -6 JobLockMismatch; -3 JobNotInState: not active, and its lock is gone.
--         Where the next was asked for, and there is one, now or later, four elements as moveToActive's
local call = redis.call
--- include "children"
--- include "events"
--- include "job_fields"
--- include "job_keys"
--- include "keep"
--- include "lock"
--- include "markers"
--- include "metrics"
--- include "pickup"

local wait_key, active_key, prioritized_key, events_key, meta_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[9]
local finished_key, job_key = KEYS[11], KEYS[12]
local job_id, now_ms, field, value, target, prefix = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[7]

-- Lets jobs of the same deduplication id in again, unless the id holds for a time of its own, or by another job.
local function end_deduplication(deduplication_key)
  local ttl_ms = call("PTTL", deduplication_key)
  if ttl_ms == 0 or ttl_ms == -1 and call("GET", deduplication_key) == job_id then
    call("DEL", deduplication_key)
  end
end

local function keep_or_remove(keep, parent_key)
  if keep.count == 0 then
    delete_job(job_key)
    if parent_key then
      child_removed(parent_key, job_key)
    end
    return
  end
  call("ZADD", finished_key, now_ms, job_id)
  call("HSET", job_key, field, value, "finishedOn", now_ms)
  if target == "failed" then
    call("HDEL", job_key, "defa")
  end
  if keep.age then
    keep_younger(finished_key, prefix, now_ms, keep.age)
  end
  if keep.count and keep.count > 0 then
    keep_newest(finished_key, prefix, keep.count)
  end
end

-- Returns moveToActive's reply, or nothing where there is no job at all.
local function pick_up_next(opts)
  local marker_key = KEYS[14]
  local refusal, limiter_max, limiter_ms = ask_for_job(KEYS, marker_key, prefix, now_ms, opts.limiter)
  if refusal then
    return refusal
  end
  local next_id = call("RPOPLPUSH", wait_key, active_key)
  if next_id and next_id:sub(1, 2) == "0:" then -- no job: what woke workers in releases before 5
    call("LREM", active_key, 1, next_id)
    next_id = next_id == "0:0" and take_prioritized(KEYS)
  else
    next_id = next_id or take_prioritized(KEYS)
  end
  if next_id then
    return hand_over(next_id, KEYS, marker_key, prefix, now_ms, limiter_max, limiter_ms, opts)
  end
  local due_ms = next_due_ms(KEYS[7])
  return due_ms and { 0, 0, 0, due_ms }
end

if call("EXISTS", job_key) == 0 then
  return -1
end
if target == "completed" then -- asked before the lock: it stays
  if call("SCARD", job_key .. ":dependencies") > 0 then
    return -4
  end
  if call("ZCARD", job_key .. ":unsuccessful") > 0 then
    return -9
  end
end
local opts = cmsgpack.unpack(ARGV[8])
local refusal = release_lock(job_key, job_id, opts.token, KEYS[5])
if refusal then
  return refusal
end
set_fields(job_key, ARGV[9])
if call("LREM", active_key, -1, job_id) == 0 then
  return -3
end
local parent_key, parent, deduplication_id = unpack(call("HMGET", job_key, "parentKey", "parent", "deid"))
call("XTRIM", events_key, "MAXLEN", "~", max_events_of(meta_key)) -- first, so that nothing told below is trimmed
if deduplication_id then
  end_deduplication(prefix .. "de:" .. deduplication_id)
end
local link = parent and cjson.decode(parent)
if target == "failed" and link then
  child_failed(link, job_key, value, now_ms)
elseif target == "completed" and parent_key then
  child_completed(parent_key, link, job_key, value, now_ms)
end
local attempts_made = call("HINCRBY", job_key, "atm", 1)
keep_or_remove(opts.keepJobs, parent_key)
emit(events_key, target, "jobId", job_id, field, value, "prev", "active")
if target == "failed" and attempts_made >= tonumber(opts.attempts) then
  emit(events_key, "retries-exhausted", "jobId", job_id, "attemptsMade", attempts_made)
end
if opts.maxMetricsSize ~= "" then
  count_finished(KEYS[13], opts.maxMetricsSize, now_ms)
end
local reply = ARGV[6] == "1" and pick_up_next(opts)
if reply then
  return reply
end
if call("LLEN", wait_key) == 0 and call("LLEN", active_key) == 0 and call("ZCARD", prioritized_key) == 0 then
  emit(events_key, "drained")
end
return 0
