"""Pure functions from frozen data to what a path answers; one module for each subject."""
