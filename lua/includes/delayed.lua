-- The delayed set: a score is the millisecond at which a job falls due, times 4096, plus its place among those that
-- fall due in the same one.

-- Returns the score of a job that is put behind those of its millisecond, and that millisecond. A delay below 0 is
-- none. The last of the 4096 places is shared by all who come later.
local function delayed_score(delayed_key, now_ms, delay_ms)
  local due_ms = now_ms + math.max(delay_ms, 0)
  local first, last = due_ms * 4096, due_ms * 4096 + 4095
  local taken = tonumber(call("ZREVRANGEBYSCORE", delayed_key, last, first, "WITHSCORES", "LIMIT", 0, 1)[2])
  if not taken then
    return first, due_ms
  end
  return taken < last and taken + 1 or last, due_ms
end
