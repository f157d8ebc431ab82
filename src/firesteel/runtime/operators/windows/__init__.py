"""The window operators: a general one, faster ones that do the same for common windows, and what they are made of.

`factory` chooses the operator, `base` is what all have in common, `output` what windows hold and what leaves them.

- `general_operator`: any assigner, `triggers` and evictors; `merging` for windows that merge.
- `pane_operator`: tumbling and sliding windows. Records go through a loop made to measure into a store of `panes`;
  `sliding_merge` makes windows of panes that they share.
- `session_operator` and `count_operator`: sessions, and windows of a number of records.

What one operator has saved and another one reads is in `restore`.
"""
