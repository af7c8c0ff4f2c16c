"""What `emqproxy demo` plays, and the reference worker that it plays it with.

To copy from: `worker` is a whole worker of the lock protocol (with `job`, `producer` and `scripts_client`).

The story: `plan` has its names and times, `expected` what must be seen of each job for it to be true. `server` finds a
Redis, `children` starts processes and ends them whatever ends the demo, `stage` puts the server, emqproxy and three
workers (`story_worker`) on their places. `story` directs, and reads the journal; `words` turns its lines into
sentences, `account` shows them as they fall, `summary` draws each job's lock over time. Nothing here is used by the
sidecar itself.
"""
