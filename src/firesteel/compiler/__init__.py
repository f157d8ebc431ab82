"""From the graph a program asked for to the plan its tasks run: chains of operators in a line of stages."""
