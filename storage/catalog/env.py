"""Alembic's entry: runs the migrations on the connection that `migrations` hands over."""

from alembic import context

from storage.catalog.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=False,  # the transaction is the caller's
)
context.run_migrations()
