"""Code as a program: the event loop, the identity of steps and the replay that Python workflows
use."""
