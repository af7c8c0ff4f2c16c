-- Renews one lock, if this token still holds it, and takes away the job's mark of a possible stall.
--
-- KEYS    1 the job's lock   2 stalled
-- ARGV    1 token   2 time to live, ms   3 job id
-- Output  1 renewed; 0 there is no lock, or it is another's
local call = redis.call

if call("GET", KEYS[1]) ~= ARGV[1] then
  return 0
end
call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
call("SREM", KEYS[2], ARGV[3])
return 1
