"""emqproxy: a RESP proxy that keeps an account of every job lock that passes through it."""

__version__ = "0.1.0"
