"""The bridge into nbgrader: no kernel runs, and nothing a student wrote is executed.

nbgrader's own commands call, by ``nbgrader_config.py``:

    release_assignment  release.RegisteringRelease       tells the gradebook the cells
    release_feedback    release.TimelessFeedback         also where no time is known
    collect             collect.ReceiptCollect           takes what is the student's own, and
                                                         writes receipts
    autograde           submitted._see_files             before it looks for notebooks
                        submitted.quarantine_submission  before any file is copied
                        submitted.RebuildExporter        reads the submission, gives ours
                        results.WriteResults             in the place of Execute: outputs of cells
                        results.SaveGrades               outputs -> gradebook, extra modules too
                        results.SaveRecord               why points were given, for a later regrade
    formgrader          pages.EscapeNames                before its page of a submission is made
    generate_feedback   pages.FeedbackExporter           our page, from the autograded notebook
    export              csv_export.SafeCsvExport         a CSV that is safe to open
"""
