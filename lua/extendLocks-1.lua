-- Renews many locks, each if its token still holds it, and takes away those jobs' marks of a possible stall.
--
-- KEYS    1 stalled
-- ARGV    1 prefix   2 tokens, msgpack array   3 job ids, msgpack array in the same order   4 time to live, ms
-- Output  the ids whose lock is gone or another's; empty where all are renewed
local call = redis.call

local prefix, ttl_ms = ARGV[1], ARGV[4]
local tokens = cmsgpack.unpack(ARGV[2])
local refused = {}
for place, job_id in ipairs(cmsgpack.unpack(ARGV[3])) do
  local token, lock_key = tokens[place], prefix .. job_id .. ":lock"
  if call("GET", lock_key) == token then
    call("SET", lock_key, token, "PX", ttl_ms)
    call("SREM", KEYS[1], job_id)
  else
    refused[#refused + 1] = job_id
  end
end
return refused
