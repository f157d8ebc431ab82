"""Checkpoints as the job master sees them: when they begin, what they consist of, where they are kept, what a job starts from."""
