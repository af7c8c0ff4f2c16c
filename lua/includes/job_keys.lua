-- The keys of one job.

-- Deletes everything that is kept of a job, but its lock: that runs out by itself.
local function delete_job(job_key)
  call("DEL", job_key, job_key .. ":logs", job_key .. ":dependencies", job_key .. ":processed", job_key .. ":failed",
    job_key .. ":unsuccessful")
end
