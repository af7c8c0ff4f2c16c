-- Deduplication: while a key names a job, a job that is added under the same deduplication id is not made. The key
-- lives for a time (`ttl`), or until that job ends.
--- include "events"
--- include "job_keys"

-- Names a job as the one that keeps others out, for the time to live, or for good where there is none; with "NX" only
-- where none is named yet. Returns false where one is.
local function hold_deduplication(deduplication_key, job_id, ttl_ms, ...)
  if ttl_ms then
    return call("SET", deduplication_key, job_id, "PX", ttl_ms, ...)
  end
  return call("SET", deduplication_key, job_id, ...)
end

-- Tells which job came in whose place: as BullMQ names it now, and under the name that it had before.
local function emit_deduplicated(events_key, max_events, deduplication_id, kept_id, dropped_id)
  emit_and_trim(events_key, max_events, "debounced", "jobId", kept_id, "debounceId", deduplication_id)
  emit_and_trim(events_key, max_events, "deduplicated", "jobId", kept_id, "deduplicationId", deduplication_id,
    "deduplicatedJobId", dropped_id)
end

-- Decides between a new job and the one that holds its deduplication id. `rule` is the new job's own: `id`; `ttl` in
-- ms, 0 or nothing for no end; `replace`: a holder that is still delayed gives way; `extend`: the time to live starts
-- anew. Returns the id of the job that keeps the new one out, or nothing where the new one is to be made.
local function deduplicate(rule, deduplication_key, job_id, prefix, delayed_key, events_key, max_events)
  local ttl_ms = rule.ttl and rule.ttl > 0 and rule.ttl
  if hold_deduplication(deduplication_key, job_id, ttl_ms, "NX") then
    return
  end
  local holder_id = call("GET", deduplication_key)
  if not rule.replace then
    if ttl_ms and rule.extend then
      hold_deduplication(deduplication_key, holder_id, ttl_ms)
    end
    emit_deduplicated(events_key, max_events, rule.id, holder_id, job_id)
    return holder_id
  end
  if call("ZREM", delayed_key, holder_id) == 0 then
    return holder_id
  end
  delete_job(prefix .. holder_id)
  emit(events_key, "removed", "jobId", holder_id, "prev", "delayed")
  emit_deduplicated(events_key, max_events, rule.id, job_id, holder_id)
  if ttl_ms and not rule.extend then
    call("SET", deduplication_key, job_id, "KEEPTTL")
  else
    hold_deduplication(deduplication_key, job_id, ttl_ms)
  end
end
