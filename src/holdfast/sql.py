"""The database connection of a transactional step."""

from holdfast.authoring.python.sqlalchemy import sqlalchemy_connection as sqlalchemy_connection
from holdfast.authoring.python.step import connection as connection
