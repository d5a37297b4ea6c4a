"""Effects, thin: each activity calls ports and reports counts and references.

May import `contracts` and `documents`. A new activity is a method with its name from
`contracts.activities`, in the class of its noun, and that class in `ACTIVITIES` of the worker.
"""
