"""The command of Django, in the packages in which Django looks for it."""
