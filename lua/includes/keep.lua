-- How many finished jobs are kept, and for how long. `finished_key` is the set of the completed or of the failed ones,
-- by the time at which they ended.
--- include "children"
--- include "job_keys"

-- Removes finished jobs, but not from their set.
local function remove_finished(job_ids, prefix)
  for _, job_id in ipairs(job_ids) do
    local job_key = prefix .. job_id
    local parent_key = call("HGET", job_key, "parentKey")
    if parent_key and call("EXISTS", parent_key) == 1 then
      child_removed(parent_key, job_key)
    end
    delete_job(job_key)
  end
end

-- Keeps none that ended as long as `age_s` ago.
local function keep_younger(finished_key, prefix, now_ms, age_s)
  local oldest_ms = now_ms - age_s * 1000
  remove_finished(call("ZREVRANGEBYSCORE", finished_key, oldest_ms, "-inf"), prefix)
  call("ZREMRANGEBYSCORE", finished_key, "-inf", oldest_ms)
end

-- Keeps the `count` that ended last.
local function keep_newest(finished_key, prefix, count)
  remove_finished(call("ZREVRANGE", finished_key, count, -1), prefix)
  call("ZREMRANGEBYRANK", finished_key, 0, -count - 1)
end
