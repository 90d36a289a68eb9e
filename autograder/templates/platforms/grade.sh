#!/bin/sh
# PrairieLearn runs this for each submission, as root, in the image that info.json names. The
# working folder must not be the student's: Python would import from there.
umask 077
cd /
kit=/grade/tests/kit
exec env -i PATH="$PATH" HOME=/root LANG=C.UTF-8 \
  PYTHONPATH="$kit" RINGSIDE_COURSE="$kit" PYTHONDONTWRITEBYTECODE=1 \
  python3 -P -m autograder.platforms.prairielearn.run
