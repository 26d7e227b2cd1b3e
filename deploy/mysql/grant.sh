#!/bin/sh
# Run once by the mysql image when it makes its data folder: the user may make and drop databases, as tests do.
set -eu
MYSQL_PWD=$MYSQL_ROOT_PASSWORD mysql --user=root --host=localhost <<SQL
GRANT ALL PRIVILEGES ON *.* TO '$MYSQL_USER'@'%' WITH GRANT OPTION;
SQL
