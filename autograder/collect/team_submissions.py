"""A team's one submission, given to each of its members.

    who of team red handed in      which counts
    ada                            ada's
    ada and bob, with receipts     the one with the newest receipt; who has one goes before
                                   who hasn't
    ada and bob, without any       theirs, if it is the same; else nobody's, and both are told

After that every member has a submission, so whatever is made of a class (tables, the gradebook,
exports, pages of feedback) has all of them. Nobody outside a team is touched.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from autograder.collect import preparation, submitted_tree
from autograder.collect.quarantine import Rejected
from autograder.collect.submissions import PathError, Submission
from autograder.course import people, receipt, teams
from autograder.course.assignment import Assignment, AssignmentError
from autograder.course.course import Course
from autograder.course.teams import Team

__all__ = ["doubts", "share", "spread"]


def share(plan: Assignment, submissions: Sequence[Submission], course: Course) -> list[Submission]:
    """The submissions, with each team's in the place of its members' own.

    Raises:
        AssignmentError: the list of teams, or of receipts, is wrong.
    """
    course_teams = teams.read(course, plan.name)
    by_student = {each.student: each for each in submissions}
    strangers = _strangers(course, course_teams, by_student)
    by_member: dict[str, Submission] = {}
    for team in course_teams.values():
        candidates = [by_student[each] for each in team.members if each in by_student]
        if candidates:
            choice = _counting(plan, team, candidates, course)
            for member in team.members:
                if member not in strangers:
                    by_member[member] = _for_member(team, member, choice, by_student.get(member))
    # In the order that they were found in; then the members who handed in nothing themselves.
    handins = [by_member.pop(each.student, each) for each in submissions]
    return [*handins, *by_member.values()]


def spread(plan: Assignment, course: Course) -> list[str]:
    """Put what counts for a team into each member's folder of nbgrader's tree.

    Returns:
        A sentence for each team whose members handed in different things.

    Raises:
        AssignmentError: a list is wrong, or nobody can say what counts for a team.
    """
    if not teams.read(course, plan.name):
        return []
    submissions = [Submission(path.parent.name, path) for path in course.submissions(plan.name)]
    shared = share(plan, submissions, course)
    if unclear := {submission.rejected for submission in shared if submission.rejected}:
        raise AssignmentError(" ".join([*sorted(unclear), cure(plan, course)]))
    for submission in shared:
        if submission.team and submission.path != course.submitted(submission.student, plan.name):
            submitted_tree.put(plan, submission, course, of_another=True)
    return list(dict.fromkeys(sentence for submission in shared for sentence in submission.intake))


def cure(plan: Assignment, course: Course) -> str:
    """What an instructor does about a team of which nobody knows what came last."""
    return (
        f"Write the times into {course.receipts(plan.name)} (student,received), or take away what "
        "doesn't count."
    )


def doubts(plan: Assignment, submissions: Sequence[Submission], course: Course) -> list[str]:
    """What to say of names in the list of teams that are nobody's; a sentence each.

    Args:
        submissions: as they were found, before they were shared.
    """
    by_student = {submission.student: submission for submission in submissions}
    course_teams = teams.read(course, plan.name)
    strangers = _strangers(course, course_teams, by_student)
    there = people.known(course) | by_student.keys()
    members = {member for team in course_teams.values() for member in team.members}
    path = course.teams(plan.name)
    sentences = []
    for name, line in teams.lines(path).items() if path.is_file() else ():
        near = difflib.get_close_matches(name, there - members, n=1)
        meant = f"did you mean {near[0]!r}?" if near else "no name here is like it."
        if name in strangers:
            sentences.append(
                f"{path}, line {line}: no student is named {name!r}; {meant} Nothing is given to "
                f"that name. If it is right: nbgrader db student add {name}"
            )
        elif near and name not in there:
            sentences.append(
                f"{path}, line {line}: {name!r} has handed in nothing; {meant} The team's grade "
                "goes to that name."
            )
    return sentences


def _strangers(
    course: Course, found: Mapping[str, Team], by_student: Mapping[str, Submission]
) -> set[str]:
    """Members whom a course that knows its students doesn't know: a grade would make one of them.

    Where nobody is in the gradebook yet, everybody may be one.
    """
    if not people.listed(course):
        return set()
    students = people.known(course) | by_student.keys()
    return {member for team in found.values() for member in team.members} - students


def _for_member(team: Team, member: str, counts: Submission, own: Submission | None) -> Submission:
    """The team's submission as a member's; own name and address, where somebody knows them."""
    if counts.student == member:
        return counts
    by = "" if counts.rejected else f"{counts.student} handed in for team {team.name}."
    return dataclasses.replace(
        counts,
        student=member,
        name=own.name if own else "",
        email=own.email if own else "",
        notes=(by,) if by else (),
    )


def _counting(
    plan: Assignment, team: Team, own: Sequence[Submission], course: Course
) -> Submission:
    """The one of the members' submissions that counts, with what is to be said of it."""
    receipts = receipt.received(course, plan.name)
    first = datetime.min.replace(tzinfo=next(iter(receipts.values())).tzinfo if receipts else None)
    newest = max(own, key=lambda each: receipts.get(each.student, first))  # the first of equal ones
    others = [each for each in own if each is not newest and not _same(plan, newest, each, course)]
    newest = dataclasses.replace(newest, team=team.name)
    moment = receipts.get(newest.student)
    if not others:
        return newest
    if moment is None:
        everybody = ", ".join(each.student for each in own)
        why = (
            f"Team {team.name}: {everybody} handed in different things, and no receipt says which "
            "came last."
        )
        return dataclasses.replace(newest, rejected=why)
    older = ", ".join(each.student for each in others if each.student in receipts)
    if not older:  # the others' are copies of what came before
        return newest
    sentence = (
        f"Team {team.name}: what {newest.student} handed in counts, the newest, received "
        f"{moment:%Y-%m-%d %H:%M} UTC; what {older} handed in before is another thing."
    )
    return dataclasses.replace(newest, intake=(*newest.intake, sentence))


def _same(plan: Assignment, one: Submission, other: Submission, course: Course) -> bool:
    """Whether two members handed in the same, be it as a notebook, an archive or files."""
    if one.rejected or other.rejected:
        return False
    if (
        _folder(one.path)
        and _folder(other.path)
        and submitted_tree.work(one.path) == submitted_tree.work(other.path)
    ):
        return True
    try:
        read = [preparation.prepare(plan, submission, course) for submission in (one, other)]
    except (Rejected, PathError):
        return False
    return read[0].modules == read[1].modules and read[0].texts == read[1].texts


def _folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
