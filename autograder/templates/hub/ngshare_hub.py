"""ngshare, the exchange where no folder is shared: /etc/jupyterhub/ngshare.py."""

STATE = "/srv/ngshare"  # `install -d -m 0700 -o ngshare /srv/ngshare`
PYTHON = f"{STATE}/.venv/bin/python"  # with SQLAlchemy 1.4: by 2.0 it loses what is released

c = get_config()  # noqa: F821
c.JupyterHub.services.append(
    {
        "name": "ngshare",
        "url": "http://127.0.0.1:10101",
        "user": "ngshare",
        "cwd": STATE,
        "command": [
            *(PYTHON, "-m", "ngshare", "--admins", "ines"),
            *("--database", f"sqlite:///{STATE}/ngshare.db", "--storage", f"{STATE}/files"),
        ],
    }
)
