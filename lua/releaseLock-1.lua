-- Releases one lock, if this token holds it. The job stays where it is.
--
-- KEYS    1 the job's lock
-- ARGV    1 token   2 unused: callers send the lock's time to live
-- Output  1 released; 0 there is no lock, or it is another's
local call = redis.call

if call("GET", KEYS[1]) ~= ARGV[1] then
  return 0
end
return call("DEL", KEYS[1])
