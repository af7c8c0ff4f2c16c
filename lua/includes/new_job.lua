-- What every script that adds a job does, but for the place where it puts it.
--- include "deduplication"
--- include "events"
--- include "parents"

-- Meets a job whose id is already taken by one that exists: nothing is made, but the job there becomes a child of
-- `parent` (nil for none), unless another parent that exists has it. A completed one counts as processed. Returns the
-- reply.
local function adopt_job(job_key, job_id, parent, dependencies_key, completed_key, events_key, max_events, now_ms)
  local former_key = call("HGET", job_key, "parentKey")
  if parent and (not former_key or former_key == parent.key) then
    if call("ZSCORE", completed_key, job_id) then
      local value, link = call("HGET", job_key, "returnvalue"), parent.link
      note_processed_child(link.queueKey, parent.key, dependencies_key, link.id, job_key, value, now_ms)
    elseif dependencies_key ~= nil then
      call("SADD", dependencies_key, job_key)
    end
    call("HSET", job_key, "parentKey", parent.key, "parent", parent.json)
  elseif parent and call("EXISTS", former_key) == 1 then
    return -7 -- ParentJobCannotBeReplaced
  end
  emit_and_trim(events_key, max_events, "duplicated", "jobId", job_id)
  return job_id .. ""
end

-- Writes a job's hash. Returns its delay in ms and its priority, 0 for none.
local function store_job(job_key, name, data, opts, now_ms, parent, scheduler_key)
  local delay_ms, priority, extra = opts.delay or 0, opts.priority or 0, {}
  if parent then
    extra = { "parentKey", parent.key, "parent", parent.json }
  end
  if scheduler_key then
    extra[#extra + 1] = "rjk"
    extra[#extra + 1] = scheduler_key
  end
  if opts.de and opts.de.id then
    extra[#extra + 1] = "deid"
    extra[#extra + 1] = opts.de.id
  end
  call("HSET", job_key, "name", name, "data", data, "opts", cjson.encode(opts), "timestamp", now_ms,
    "delay", delay_ms, "priority", priority, unpack(extra))
  return delay_ms, priority
end

-- Makes a job, which then has to be put somewhere and tied to its parent. `args` are:
--   1 prefix   2 the id it is to have, "" for the next number   3 name   4 now, ms   5 the parent's key
--   6 the key of the parent's dependencies   7 the parent: {id, queueKey}   8 the key of the scheduler it comes from
--   9 the key that holds its deduplication id; 5 to 9 may be nil
-- Returns a table with its `key`, `id`, `delay_ms`, `priority`, its parent's `dependencies_key` and the stream's
-- `max_events`. Where no job is made it returns nil, and the reply: the id of the job that is there instead, or an
-- error code.
local function make_job(args, data, opts, id_key, meta_key, events_key, completed_key, delayed_key)
  local prefix, job_id, name, now_ms, parent_key, dependencies_key, link = unpack(args, 1, 7)
  local parent
  if parent_key ~= nil then
    if call("EXISTS", parent_key) == 0 then
      return nil, -5 -- ParentJobNotExist
    end
    parent = { key = parent_key, link = link, json = cjson.encode(link) }
  end
  local number, max_events = call("INCR", id_key), max_events_of(meta_key)
  if job_id == "" then
    job_id = number
  elseif call("EXISTS", prefix .. job_id) == 1 then
    return nil, adopt_job(prefix .. job_id, job_id, parent, dependencies_key, completed_key, events_key, max_events,
      now_ms)
  end
  if opts.de and opts.de.id then
    local holder_id = deduplicate(opts.de, args[9], job_id, prefix, delayed_key, events_key, max_events)
    if holder_id then
      return nil, holder_id
    end
  end
  local job_key = prefix .. job_id
  local delay_ms, priority = store_job(job_key, name, data, opts, now_ms, parent, args[8])
  emit(events_key, "added", "jobId", job_id, "name", name)
  return { key = job_key, id = job_id, delay_ms = delay_ms, priority = priority, dependencies_key = dependencies_key,
    max_events = max_events }
end

-- Lets the parent, if there is one, wait for a job that has been put in its place. Returns the reply: the job's id.
local function tie_to_parent(job)
  if job.dependencies_key ~= nil then
    call("SADD", job.dependencies_key, job.key)
  end
  return job.id .. ""
end
