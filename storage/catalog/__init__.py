"""The catalog: the metadata database that judges. One module for each port, one transaction for
each write.

`schema` has the tables, `versions/` the migrations, `repository` the adapter as a whole, and
`memory` the one for tests.
"""
