-- Finished jobs a minute: a hash with the count of all, and how it stood when the last minute was written (`prevCount`,
-- at `prevTS`); a list with a number a minute, the latest first.

-- Counts one job. The first one of a minute writes what has come together since the last one that did, and a 0 for each
-- minute in between; the first of all writes nothing. The list keeps `minutes_max`.
local function count_finished(metrics_key, minutes_max, now_ms)
  local before = call("HINCRBY", metrics_key, "count", 1) - 1
  local last_ms, last_count = unpack(call("HMGET", metrics_key, "prevTS", "prevCount"))
  if not last_ms then
    call("HSET", metrics_key, "prevTS", now_ms, "prevCount", 0)
    return
  end
  local minutes = math.min(math.floor(now_ms / 60000) - math.floor(last_ms / 60000), tonumber(minutes_max))
  if minutes <= 0 then
    return
  end
  local list_key = metrics_key .. ":data"
  call("LPUSH", list_key, before - last_count)
  for _ = 2, minutes do
    call("LPUSH", list_key, 0)
  end
  call("LTRIM", list_key, 0, minutes_max - 1)
  call("HSET", metrics_key, "prevCount", before, "prevTS", now_ms)
end
