-- Jobs with a priority: a sorted set whose lowest score is taken first.

-- Puts a job behind all others of its priority. The score is the priority, 2^32 times, and a counter that turns over.
local function add_prioritized(prioritized_key, priority_counter_key, priority, job_id)
  local turn = call("INCR", priority_counter_key)
  call("ZADD", prioritized_key, priority * 4294967296 + turn % 4294967296, job_id)
end
