"""The wing for SQL Server: pyodbc, ODBC driver 18."""
