"""The token machine: a pure interpreter of a compiled process.

Outcomes go in, requests come out. It has no clock (it uses the time of the outcome that it is fed),
no randomness and no recursion over the model: tokens that can move are in a queue.
"""
