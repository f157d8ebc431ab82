"""What people see of a running job in a terminal."""
