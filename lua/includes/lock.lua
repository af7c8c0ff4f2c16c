-- A job's lock: one key that holds its owner's token under a time to live.

-- Releases it, and takes away the job's mark of a possible stall. Returns nothing where that is done, else the code
-- that says why not. Token "0" passes unchecked, and leaves the lock as it is.
local function release_lock(job_key, job_id, token, stalled_key)
  if token == "0" then
    return
  end
  local lock_key = job_key .. ":lock"
  local holder = call("GET", lock_key)
  if holder ~= token then
    return holder and -6 or -2 -- JobLockMismatch, JobLockNotExist
  end
  call("DEL", lock_key)
  call("SREM", stalled_key, job_id)
end
