-- Notes how far a job has come. Anybody may: no lock is asked for.
--
-- KEYS    1 the job   2 events   3 meta
-- ARGV    1 job id   2 progress, JSON
-- Output  0 noted; -1 JobNotExist
local call = redis.call
--- include "events"

if call("EXISTS", KEYS[1]) == 0 then
  return -1
end
local max_events = max_events_of(KEYS[3])
call("HSET", KEYS[1], "progress", ARGV[2])
emit_and_trim(KEYS[2], max_events, "progress", "jobId", ARGV[1], "data", ARGV[2])
return 0
