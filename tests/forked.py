"""Functions in processes of their own, which need not import everything again."""

import multiprocessing


def in_a_fork(function, *arguments, seconds=60):
    """What a function returns in a fork of this process."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=lambda: theirs.send(function(*arguments)), daemon=True)
    child.start()
    theirs.close()
    try:
        assert ours.poll(seconds), "the process gave no answer"
        return ours.recv()
    finally:
        child.kill()
        child.join()
