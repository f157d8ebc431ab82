"""The cluster service: takes programs, runs each as the driver of its jobs in a process of its own, shows all of them at one port.

It holds no user code and unpickles nothing. What it knows is in its folder: another service resumes from there.
"""
