"""nbgrader's settings for every account, where ngshare is the exchange.

They are /etc/jupyter/nbgrader_config.py instead of those for a shared folder.
"""

import ngshare_exchange

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "ringside"
c.CourseDirectory.ignore = [
    ".ipynb_checkpoints",
    "__pycache__",
    ".ringside",
    "*.before-*",
    "*.as-released",
]
ngshare_exchange.configureExchange(c, "http://127.0.0.1:8000/services/ngshare")
