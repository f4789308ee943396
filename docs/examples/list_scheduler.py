"""A list scheduler as a pass in Python: docs/python.md explains it."""

import kodama


def ways_to_the_end(problem):
    """Of each operation, the steps from its issue to the end: dependences lead forward, so one walk back is enough."""
    ways = [1] * len(problem.operations)
    for edge in sorted(problem.dependences, key=lambda each: -each.from_):
        ways[edge.from_] = max(ways[edge.from_], edge.distance + ways[edge.to])
    return ways


def fits(problem, mine, step, issue):
    """Whether operation `mine` may issue in `step` beside those that have a step in `issue` (None: not yet)."""
    together = [problem.operations[k] for k, at in enumerate(issue) if at == step] + [problem.operations[mine]]
    for wanted in problem.operations[mine].uses:
        keys = [use.key for each in together for use in each.uses if use.resource == wanted.resource]
        places = keys.count(-1) + len(set(keys) - {-1})  # users with the same key share one
        if places > problem.resources[wanted.resource].capacity:
            return False
    for rule in problem.separations:
        for k, at in enumerate(issue):
            if at is None or not 0 < abs(step - at) <= rule.steps:
                continue
            first, second = (k, mine) if at < step else (mine, k)
            if rule.first in problem.operations[first].classes and rule.second in problem.operations[second].classes:
                return False
    return True


@kodama.scheduler("mine")
def list_schedule(problem, *, urgency="path"):
    """step after step, what is ready and has the longest way to the end"""
    if urgency not in ("path", "source"):
        raise kodama.UserError(f"option mine-urgency: found '{urgency}', allowed: path, source")
    ways = ways_to_the_end(problem)
    order = list(range(len(problem.operations)))
    if urgency == "path":
        order.sort(key=lambda k: -ways[k])
    before = [[edge for edge in problem.dependences if edge.to == k] for k in order]
    before = dict(zip(order, before))
    issue = [None] * len(order)
    step = 0
    while None in issue:
        again = True
        while again:  # an operation may let others into the same step
            again = False
            for k in order:
                ready = issue[k] is None and problem.operations[k].earliest <= step and all(
                    issue[edge.from_] is not None and issue[edge.from_] + edge.distance <= step for edge in before[k])
                if ready and fits(problem, k, step, issue):
                    issue[k] = step
                    again = True
        step += 1
    return issue
