"""PostgreSQL, Valkey and the processes of one machine, started and stopped by `manage.py up`."""
