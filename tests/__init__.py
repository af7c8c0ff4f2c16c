"""Tests, laid out as emqproxy/ is; shared helpers stand here at the top: `from tests.processes import RedisServer`."""
