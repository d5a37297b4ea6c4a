"""Effects, thin: each activity calls ports and reports counts and references.

May import `contracts` and `documents`. A new activity is a method with its name from
`contracts.activities`, in the class of its noun, and an entry in `activities_by_queue` of
`sluice/worker.py`.
"""
