"""A hub for a class: /etc/jupyterhub/jupyterhub_config.py; docs/hub.md says what belongs to it.

Everybody works with the rights of an account of this machine. The group `students` may log in,
and the graders, who are the group of the course's account, `ringside`. They alone reach the
formgrader, which runs as that account.
"""

import grp

c = get_config()  # noqa: F821

STUDENTS = "/srv/students/.venv/bin"  # the environment of everybody's own server
COURSE = "ringside"  # the course's account, its group, its service, nbgrader's course_id
KIT = f"/srv/{COURSE}/kit/.venv/bin"  # the environment that grades
STATE = "/var/lib/jupyterhub"  # root's alone: its files hold tokens and the key of cookies
PATH = "/usr/local/bin:/usr/bin:/bin"

# A web server with TLS stands before it: nobody else listens to what goes over the network.
c.JupyterHub.bind_url = "http://127.0.0.1:8000"
c.JupyterHub.db_url = f"sqlite:///{STATE}/jupyterhub.sqlite"
c.JupyterHub.cookie_secret_file = f"{STATE}/cookie_secret"
c.ConfigurableHTTPProxy.pid_file = f"{STATE}/proxy.pid"

# -- who may log in, with the password of the account ---------------------------------------------
c.LocalAuthenticator.allowed_groups = {"students", COURSE}
c.Authenticator.admin_users = set()  # a hub's admin could enter everybody's server

# -- everybody's own server -----------------------------------------------------------------------
c.Spawner.cmd = [f"{STUDENTS}/jupyterhub-singleuser"]
c.Spawner.default_url = "/lab"
c.Spawner.environment = {"PATH": f"{STUDENTS}:{PATH}"}

# -- the formgrader, for graders ------------------------------------------------------------------
graders = grp.getgrnam(COURSE).gr_mem  # read when the hub starts
c.JupyterHub.services = [
    {
        "name": COURSE,
        "url": "http://127.0.0.1:8101",
        "user": COURSE,
        "cwd": f"/srv/{COURSE}/course",
        "command": [f"{KIT}/jupyterhub-singleuser", f"--config=/etc/jupyterhub/{COURSE}.py"],
        "oauth_no_confirm": True,
        "environment": {"PATH": f"{KIT}:{PATH}", "JUPYTERHUB_DEFAULT_URL": "/formgrader"},
    }
]
c.JupyterHub.load_roles = [
    {"name": f"graders-{COURSE}", "scopes": [f"access:services!service={COURSE}"], "users": graders}
]

# -- only where no folder can be shared -----------------------------------------------------------
# load_subconfig("/etc/jupyterhub/ngshare.py")
