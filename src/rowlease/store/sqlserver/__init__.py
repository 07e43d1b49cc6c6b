"""The store for SQL Server, with pyodbc and Microsoft's ODBC driver 18."""
