"""What graders reach at the course's service: /etc/jupyterhub/ringside.py.

The service runs as the course's account, which may read everything of the course. So it offers the
formgrader alone: no terminal, no kernel, no files, none of which grading needs.
"""

from jupyter_server.auth.authorizer import Authorizer


class FormgraderAlone(Authorizer):
    """Refuses all that Jupyter Server itself offers."""

    def is_authorized(self, handler, user, action, resource):
        return False


c = get_config()  # noqa: F821
c.ServerApp.authorizer_class = FormgraderAlone
c.ServerApp.terminals_enabled = False
c.ServerApp.jpserver_extensions = {
    "jupyter_lsp": False,
    "jupyterlab": False,
    "nbclassic": False,
    "notebook": False,
    "notebook_shim": False,
    "nbgrader.server_extensions.assignment_list": False,
    "nbgrader.server_extensions.course_list": False,
    "nbgrader.server_extensions.validate_assignment": False,
    "nbgrader.server_extensions.formgrader": True,
}
