"""The way into a subtask: channels, what waits on them, barriers, event time, and the order in which things are read."""
