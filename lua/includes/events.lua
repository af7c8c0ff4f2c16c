-- The queue's event stream, and how long it may grow.

-- Returns how many events the stream keeps, roughly. Where nobody has said so, 10000 is written down and returned.
local function max_events_of(meta_key)
  local max_events = call("HGET", meta_key, "opts.maxLenEvents")
  if not max_events then
    max_events = 10000
    call("HSET", meta_key, "opts.maxLenEvents", max_events)
  end
  return max_events
end

-- Appends one event: its name, then its fields and values. The stream is left as long as it gets: most events are
-- followed by one that trims, and an event of another queue is written without knowing that queue's limit.
local function emit(events_key, ...)
  call("XADD", events_key, "*", "event", ...)
end

-- Appends one event, and trims the stream by whole nodes.
local function emit_and_trim(events_key, max_events, ...)
  call("XADD", events_key, "MAXLEN", "~", max_events, "*", "event", ...)
end
