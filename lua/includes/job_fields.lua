-- Fields of a job's hash that a caller sends along with a move.

-- `packed` is a flat msgpack array of fields and values, or nothing.
local function set_fields(job_key, packed)
  local fields = packed and packed ~= "" and cmsgpack.unpack(packed)
  if fields then
    call("HSET", job_key, unpack(fields))
  end
end
