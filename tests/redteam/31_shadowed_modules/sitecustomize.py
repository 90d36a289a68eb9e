"""Would be run by every interpreter that starts here."""

open("@OUTSIDE@/sitecustomize_was_run", "w").close()
