-- The marker: a sorted set that idle workers block on. Member "0" says that a job can be taken at once, member "1" when
-- the first delayed job falls due.

-- Wakes a worker for a job that can be taken at once, unless none may be taken.
local function mark_ready(marker_key, is_held)
  if not is_held then
    call("ZADD", marker_key, 0, "0")
  end
end

-- Returns when the first delayed job falls due, in ms, with its place among those of that millisecond as a fraction;
-- nil where there is none.
local function next_due_ms(delayed_key)
  local score = call("ZRANGE", delayed_key, 0, 0, "WITHSCORES")[2]
  return score and tonumber(score) / 4096
end

-- Says when the first delayed job falls due; there is one.
local function mark_due(marker_key, delayed_key)
  call("ZADD", marker_key, next_due_ms(delayed_key), "1")
end
