"""What ``firesteel top`` is made of: samples of jobs, taken over REST; lines made from them; keys; and a screen."""
