"""The story `emqproxy demo` tells: a real server, a real worker, one healthy job, one late renewal, one lost lock.

`server` finds and starts the server, `story_worker` is the worker's process, `words` turns journal lines into
sentences, `story` puts them together. Nothing here is used by the sidecar itself.
"""
